//! Reads messages of protocol buffers, for tests of what writes them. It knows no message by name.

/// A field as it was read: its number, and a number or bytes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Read {
    Number(u64),
    Fixed(u64),
    Bytes(Vec<u8>),
}

fn number(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0_u64, 0);
    loop {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        assert!(shift < 64 && (shift < 63 || byte < 2), "a number of more than 64 bits");
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
        shift += 7;
    }
}

/// The fields of a message, as the specification of protocol buffers has them.
pub(super) fn fields(mut bytes: &[u8]) -> Vec<(u32, Read)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = number(&mut bytes);
        let read = match key & 7 {
            0 => Read::Number(number(&mut bytes)),
            1 => {
                let (fixed, rest) = bytes.split_at(8);
                bytes = rest;
                Read::Fixed(u64::from_le_bytes(fixed.try_into().unwrap()))
            }
            2 => {
                let length = number(&mut bytes) as usize;
                let (content, rest) = bytes.split_at(length);
                bytes = rest;
                Read::Bytes(content.to_vec())
            }
            other => panic!("a field of wire type {other}"),
        };
        assert_ne!(key >> 3, 0, "no field has the number 0");
        all.push(((key >> 3) as u32, read));
    }
    all
}

/// The last of a field, and that all others of it are the same.
pub(super) fn last(fields: &[(u32, Read)], number: u32) -> Option<Read> {
    let mut all = fields.iter().filter(|(field, _)| *field == number).map(|(_, read)| read);
    let last = all.next_back()?;
    assert!(all.all(|other| other == last), "{fields:?}");
    Some(last.clone())
}
