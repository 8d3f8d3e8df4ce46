//! Characters and strings: `%c %s %[`, wide and allocated ones.
#![expect(unsafe_code, reason = "stores into the caller's memory")]

use super::convert::{Reader, Stop};
use super::parse::{Conversion, Spec, is_space};
use super::target::Memory;
use super::{Input, Target, Why};

/// Elements of the first memory of a `%m`.
const FIRST: usize = 32;

/// Where the elements go.
struct Store<'a, 'b> {
    target: Option<&'a Target<'b>>,
    /// The first element's address; 0 where nothing is stored, or nothing is allocated yet.
    address: u64,
    /// Elements stored, and for how many there is room where they are allocated.
    count: usize,
    room: usize,
    /// Bytes of an element.
    element: usize,
    /// Who allocates.
    memory: Option<Memory>,
}

impl Store<'_, '_> {
    /// Appends an element.
    fn put(&mut self, value: u32) -> Result<(), Stop> {
        let Some(target) = self.target else { return Ok(()) };
        if let Some(memory) = self.memory
            && self.count == self.room
        {
            let room = if self.room == 0 { FIRST } else { self.room.saturating_mul(2) };
            let before = self.room * self.element;
            let address = memory.reallocate(self.address, before, room.saturating_mul(self.element));
            if address == 0 {
                return Err(Stop::Wrong(Why::Memory));
            }
            (self.address, self.room) = (address, room);
            target.point_to(address);
        }
        // - the target has room for its width and a NUL, as was checked, and takes no more without a width; or the memory has just been
        //   allocated
        // - the element's size is the target's
        if self.element == 1 {
            let place = (self.address as *mut u8).wrapping_add(self.count);
            #[expect(clippy::cast_possible_truncation, reason = "a byte")]
            // SAFETY:
            // - room, and an element of one byte: see above
            unsafe {
                place.write(value as u8);
            }
        } else {
            let place = (self.address as *mut u32).wrapping_add(self.count);
            // SAFETY:
            // - room, and an element of four bytes: see above
            unsafe { place.write(value) };
        }
        self.count += 1;
        Ok(())
    }
}

/// Frees what the target of a `%m` points to, and leaves null.
pub(super) fn free(memory: Memory, target: &Target<'_>) {
    // SAFETY:
    // - a target of `%m` is the address of a pointer, which was stored when the conversion began
    let address = unsafe { (target.address() as *const u64).read() };
    memory.free(address, 0);
    target.point_to(0);
}

/// The bytes of a set.
#[derive(Clone, Copy)]
struct Bytes {
    low: u128,
    high: u128,
}

impl Bytes {
    fn add(&mut self, byte: u8) {
        let bit = 1 << (byte & 127);
        if byte < 128 {
            self.low |= bit;
        } else {
            self.high |= bit;
        }
    }
    const fn has(self, byte: u8) -> bool {
        let half = if byte < 128 { self.low } else { self.high };
        half >> (byte & 127) & 1 == 1
    }
    /// The set of a conversion: a `-` between two characters is a range, unless the first is the higher.
    fn of(set: &[u8]) -> Self {
        let mut bytes = Self { low: 0, high: 0 };
        let mut at = 0;
        while at < set.len() {
            match (set[at], set.get(at + 1)) {
                (b'-', Some(last)) if at > 0 && set[at - 1] <= *last => {
                    for byte in set[at - 1]..=*last {
                        bytes.add(byte);
                    }
                }
                (byte, _) => bytes.add(byte),
            }
            at += 1;
        }
        bytes
    }
}

/// Whether a set, in UTF-8, has a character.
fn set_has(set: &[u8], wanted: char) -> bool {
    let Ok(set) = core::str::from_utf8(set) else { return false };
    let (mut before, mut rest) = (None, set.chars());
    // Ends: each round takes a character.
    while let Some(character) = rest.next() {
        let found = match (character, before, rest.clone().next()) {
            ('-', Some(first), Some(last)) if first <= last => (first..=last).contains(&wanted),
            _ => character == wanted,
        };
        if found {
            return true;
        }
        before = Some(character);
    }
    false
}

/// Which characters a field has.
enum Class<'f> {
    Any,
    NoSpace,
    Bytes(Bytes, bool),
    Wide(&'f [u8], bool),
}

impl Class<'_> {
    fn has_byte(&self, byte: u8) -> bool {
        match self {
            Self::Any => true,
            Self::NoSpace | Self::Wide(..) => !is_space(byte),
            Self::Bytes(bytes, negated) => bytes.has(byte) != *negated,
        }
    }
}

/// A field of characters, and the NUL after it unless it is `%c`'s.
pub(super) fn read<I: Input>(
    reader: &mut Reader<'_, I>,
    format: &[u8],
    spec: Spec,
    target: Option<&Target<'_>>,
    memory: Memory,
) -> Result<(), Stop> {
    let is_chars = matches!(spec.conversion, Conversion::Chars);
    let class = match spec.conversion {
        Conversion::Set { negated, start, end } if spec.is_wide() => {
            Class::Wide(&format[start..end], negated)
        }
        Conversion::Set { negated, start, end } => Class::Bytes(Bytes::of(&format[start..end]), negated),
        Conversion::Text => Class::NoSpace,
        _ => Class::Any,
    };
    let mut left = match spec.width {
        0 if is_chars => 1,
        0 => u64::MAX,
        width => u64::from(width),
    };
    if let Some(target) = target
        && !spec.allocates
        && !is_chars
    {
        left = left.min(target.text_most());
    }
    let mut store = Store {
        target,
        address: target.map_or(0, Target::address),
        count: 0,
        room: 0,
        element: if spec.is_wide() { 4 } else { 1 },
        memory: spec.allocates.then_some(memory),
    };
    if spec.allocates {
        store.address = 0;
    }
    let outcome = characters(reader, &class, left, spec.is_wide(), &mut store)
        .and_then(|()| if is_chars { Ok(()) } else { store.put(0) });
    if outcome.is_err()
        && let (Some(memory), Some(target)) = (store.memory, target)
    {
        memory.free(store.address, store.room * store.element);
        target.point_to(0);
    }
    outcome
}

/// The characters of the class that are next, `left` at most.
fn characters<I: Input>(
    reader: &mut Reader<'_, I>,
    class: &Class<'_>,
    mut left: u64,
    is_wide: bool,
    store: &mut Store<'_, '_>,
) -> Result<(), Stop> {
    let mut any = false;
    // Ends: each round takes a byte at least, or is the last.
    while left > 0 {
        let Some(byte) = reader.peek()? else {
            return if any { Ok(()) } else { Err(Stop::End) };
        };
        let value = if is_wide { wide(reader, class, byte)? } else { narrow(reader, class, byte) };
        let Some(value) = value else { break };
        any = true;
        store.put(value)?;
        left -= 1;
    }
    if any { Ok(()) } else { Err(Stop::Mismatch) }
}

/// Takes the byte that is next if it is of the class.
fn narrow<I: Input>(reader: &mut Reader<'_, I>, class: &Class<'_>, byte: u8) -> Option<u32> {
    if !class.has_byte(byte) {
        return None;
    }
    reader.take();
    Some(u32::from(byte))
}

/// Takes the character that begins with `byte`, the next one, if it is of the class.
fn wide<I: Input>(reader: &mut Reader<'_, I>, class: &Class<'_>, byte: u8) -> Result<Option<u32>, Stop> {
    if byte.is_ascii() {
        let has = match class {
            Class::Wide(set, negated) => set_has(set, char::from(byte)) != *negated,
            other => other.has_byte(byte),
        };
        if has {
            reader.take();
        }
        return Ok(has.then_some(u32::from(byte)));
    }
    let mut encoded = [byte, 0, 0, 0];
    reader.take();
    let length = match byte {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Err(Stop::Wrong(Why::Encoding)),
    };
    for place in &mut encoded[1..length] {
        match reader.peek()? {
            Some(more @ 0x80..=0xbf) => *place = more,
            _ => return Err(Stop::Wrong(Why::Encoding)),
        }
        reader.take();
    }
    let decoded = core::str::from_utf8(&encoded[..length]).ok().and_then(|text| text.chars().next());
    let Some(character) = decoded else { return Err(Stop::Wrong(Why::Encoding)) };
    let has = match class {
        Class::Wide(set, negated) => set_has(set, character) != *negated,
        _ => true,
    };
    if !has {
        reader.put_back(&encoded[..length]);
    }
    Ok(has.then_some(u32::from(character)))
}
