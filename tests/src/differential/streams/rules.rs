//! Which calls C11 and POSIX give a meaning in the present state of the stream, and which are left out because the two sides differ
//! by design. Everything that is left out says why.

use gpufs_device::stdio::{Buffering, Whence};

use super::{Call, Printf};
use crate::differential::Outcome;
use crate::differential::places::{Kind, NAMES};

/// What was done last, of what must be kept apart (C11 7.21.5.3, 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Neither,
    Input,
    /// Input that met the end of the file: output may follow.
    InputToEnd,
    Output,
}

/// An open stream, as far as the rules need to know.
#[derive(Clone, Debug)]
struct Open {
    kind: Kind,
    readable: bool,
    writable: bool,
    last: Last,
    /// Nothing but `setvbuf` was called.
    fresh: bool,
    /// Bytes were transferred.
    used: bool,
    /// A pushed-back byte has not been read yet.
    pushed: bool,
    /// The position is known to be above 0.
    behind_start: bool,
    /// The position is undefined: a byte was pushed back at position 0 (C11 7.21.7.10, 5).
    nowhere: bool,
    /// The position is too far for writing (a file of that length could not be compared), or for reading.
    far: bool,
    very_far: bool,
    buffering: Buffering,
    /// There was output since the last positioning. glibc 2.36 corrupts its heap when a byte is pushed back then, be it after a flush.
    put: bool,
    /// The size of the stream's buffer, where it was set.
    buffer_bytes: usize,
    /// Bytes written since the last flush.
    unflushed: usize,
    /// A write failed.
    broken: bool,
    /// The stream was positioned before.
    moved: bool,
    /// A byte was pushed back after a move, however long ago: see `allows_seek`.
    miscounted: bool,
    /// A byte was pushed back since the stream was opened.
    ever_pushed: bool,
    /// Its mode has an `a`.
    appends: bool,
    /// The error flag is set.
    flagged: bool,
    /// How often the stream is kept.
    holds: u32,
    /// A move failed and a pushed-back byte may be lost: C11 keeps it, glibc drops it.
    dropped: bool,
}

/// The state.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    open: Option<Open>,
    opened: u64,
    most_opened: u64,
}

/// Bytes that stay in the smallest default buffer.
const BUFFERED: usize = 4000;

impl Rules {
    pub(super) const fn new(bits: u64) -> Self {
        Self { open: None, opened: 0, most_opened: if bits == 0 { u64::MAX } else { 2 + bits % 4 } }
    }
    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
    }
    pub(super) fn is_fresh(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.fresh)
    }

    pub(super) fn allow(&self, call: &Call) -> bool {
        let Some(open) = &self.open else {
            return matches!(call, Call::Open { .. } | Call::OpenBy { .. }) && self.opened < self.most_opened;
        };
        if open.broken {
            // What was not written is kept and tried again here, and dropped there. POSIX leaves it open.
            return matches!(call, Call::Close | Call::Clearerr | Call::Lock | Call::TryLock);
        }
        match call {
            Call::Open { .. } | Call::OpenBy { .. } => false,
            Call::Read { .. } | Call::Gets { .. } | Call::Getc => open.allows_input(),
            Call::Getdelim { delimiter, .. } => {
                // A device of zeros has no other line.
                let ends = matches!(open.kind, Kind::File | Kind::Directory) || *delimiter == 0;
                // glibc reads nothing, and says nothing, where the error flag is set.
                ends && !open.flagged && open.allows_input()
            }
            Call::Write { bytes, .. } | Call::Puts { bytes, .. } => open.allows_output(*bytes),
            // How much it takes cannot be told from what it returns; and on a stream not open for reading it sets the error flag, as other input
            // does, but not in glibc.
            Call::Scanf(_) => open.readable && !open.pushed && open.allows_input(),
            Call::Putc(_) => open.allows_output(1),
            Call::Printf { kind, .. } => open.allows_output(match kind {
                Printf::Long => 500,
                Printf::Number | Printf::Line => 100,
            }),
            Call::Ungetc(_) => open.allows_ungetc(),
            Call::Seek(offset, whence) => open.allows_seek(*offset, *whence),
            Call::Tell => open.has_position(),
            // glibc 2.36 corrupts its heap when it flushes a stream with a pushed-back byte.
            Call::Flush => !open.pushed,
            // A device has no position; a position that is too far for a file is none of its system's. Where a stream appends, its descriptor
            // does not move here.
            Call::Where => {
                let stands = open.kind == Kind::File && open.has_position() && !open.far;
                // glibc 2.36 leaves its descriptor where it is when a byte was ever pushed back.
                stands && !open.ever_pushed && !open.appends
            }
            Call::Lock | Call::TryLock => true,
            // Undefined where the stream is not kept.
            Call::Unlock => open.holds > 0,
            // glibc 2.36 leaves what was pushed back to the new file. What was not written to a full device is dropped there.
            Call::Reopen { .. } => {
                let writes = open.kind == Kind::Full && open.unflushed > 0;
                !open.pushed && !writes && self.opened < self.most_opened
            }
            Call::Rewind | Call::Clearerr | Call::Close => true,
            Call::Setvbuf(buffering, _) => {
                // How much a full device takes before it says so depends on the buffer.
                open.fresh && (open.kind != Kind::Full || *buffering == Buffering::None)
            }
            // How much a full device takes before it says so depends on the buffer.
            Call::SetvbufHere(..) => open.kind != Kind::Full,
        }
    }

    /// Takes in what a call came to; whether both sides must agree on it.
    pub(super) fn note(&mut self, call: &Call, outcome: &Outcome) -> bool {
        let Some(open) = &mut self.open else {
            self.opened += 1;
            if let (Call::Open { name, mode } | Call::OpenBy { name, mode, .. }, 0) = (call, outcome.value) {
                self.open = Some(Open::new(NAMES[*name].1, mode));
            }
            return true;
        };
        let broken = open.broken;
        if *call == Call::Close {
            self.open = None;
        } else if let Call::Reopen { name, mode } = call {
            self.opened += 1;
            let kind = name.map_or(open.kind, |name| NAMES[name].1);
            let holds = open.holds;
            self.open = (outcome.value == 0).then(|| Open { holds, ..Open::new(kind, mode) });
        } else {
            open.note(call, outcome);
        }
        !(broken && *call == Call::Close)
    }
}

impl Open {
    fn new(kind: Kind, mode: &str) -> Self {
        let plus = mode.contains('+');
        Self {
            kind,
            readable: plus || mode.starts_with('r'),
            writable: plus || !mode.starts_with('r'),
            last: Last::Neither,
            fresh: true,
            used: false,
            pushed: false,
            behind_start: false,
            nowhere: false,
            far: false,
            very_far: false,
            buffering: Buffering::Full,
            put: false,
            buffer_bytes: usize::MAX,
            unflushed: 0,
            broken: false,
            moved: false,
            miscounted: false,
            ever_pushed: false,
            appends: mode.starts_with('a'),
            flagged: false,
            holds: 0,
            dropped: false,
        }
    }

    fn allows_input(&self) -> bool {
        self.last != Last::Output && (!self.readable || !self.very_far && !self.dropped)
    }

    fn allows_output(&self, bytes: usize) -> bool {
        if !self.writable {
            return true;
        }
        let fits =
            self.kind != Kind::Full || self.buffering == Buffering::None || self.unflushed + bytes < BUFFERED;
        self.last != Last::Input && !self.pushed && !self.far && fits
    }

    fn allows_ungetc(&self) -> bool {
        // C11 speaks of input streams only: elsewhere it fails here, and has no check there.
        self.readable && !self.put && !self.pushed && self.kind == Kind::File
    }

    fn has_position(&self) -> bool {
        match self.kind {
            Kind::File => !self.nowhere && !self.dropped,
            Kind::Directory => true,
            // A device has no position; the C library counts one as long as it does not ask.
            Kind::Device | Kind::Full => !self.used,
        }
    }

    fn allows_seek(&self, offset: i64, whence: Whence) -> bool {
        match self.kind {
            // A sum beyond an off_t is not checked there.
            Kind::File => match whence {
                Whence::Set => true,
                Whence::Current => {
                    // glibc 2.36 loses count where a byte was pushed back after moves, be it long ago: SEEK_END −4096, SEEK_SET 32, ungetc, SEEK_CUR 35
                    // leads it to 4130, not to the 66 of C11 7.21.7.10, 5.
                    let counted = !self.miscounted;
                    counted
                        && !self.nowhere
                        && !self.dropped
                        && (offset < 1 << 41 && !self.very_far || offset <= 0)
                }
                Whence::End => offset < 1 << 41,
            },
            // A directory's positions are its file system's own.
            Kind::Directory | Kind::Device | Kind::Full => whence == Whence::Set && offset == 0,
        }
    }

    fn note(&mut self, call: &Call, outcome: &Outcome) {
        if !matches!(call, Call::Setvbuf(..) | Call::SetvbufHere(..)) {
            self.fresh = false;
        }
        self.flagged = outcome.flags.1;
        let done = usize::try_from(outcome.value).unwrap_or(0);
        match call {
            Call::Open { .. } | Call::OpenBy { .. } | Call::Reopen { .. } | Call::Close => {}
            Call::Tell | Call::Clearerr => {}
            Call::Lock => self.holds += 1,
            Call::TryLock => self.holds += u32::from(outcome.value == 0),
            Call::Unlock => self.holds -= 1,
            Call::Getdelim { .. } => {
                self.input(usize::try_from(outcome.value).unwrap_or(0), 1, outcome);
            }
            Call::SetvbufHere(0) => {}
            Call::SetvbufHere(bytes) => self.buffer_bytes = *bytes,
            Call::Setvbuf(buffering, bytes) => {
                self.buffering = *buffering;
                self.buffer_bytes = *bytes;
            }
            Call::Read { bytes } => self.input(done, *bytes, outcome),
            Call::Getc => self.input(usize::from(outcome.value >= 0), 1, outcome),
            Call::Gets { room } => {
                let wanted = room.saturating_sub(1).min(1);
                self.input(if outcome.value == 0 { wanted } else { 0 }, wanted, outcome);
            }
            Call::Scanf(_) => {
                self.input(usize::from(outcome.value > 0), 1, outcome);
                self.used = true;
            }
            Call::Write { bytes, .. } => self.output(done, *bytes, outcome),
            Call::Putc(_) => self.output(usize::from(outcome.value >= 0), 1, outcome),
            Call::Puts { bytes, .. } => {
                self.output(if outcome.value < 0 { 0 } else { *bytes }, *bytes, outcome);
            }
            Call::Printf { .. } => self.output(done, 1, outcome),
            Call::Ungetc(_) => {
                self.pushed = true;
                self.ever_pushed = true;
                self.miscounted |= self.moved;
                self.nowhere = !self.behind_start;
                self.last = Last::Input;
            }
            Call::Seek(offset, whence) => self.moved(*offset, *whence, outcome),
            Call::Rewind => {
                // It does not say whether it could write.
                self.broken = self.kind == Kind::Full && self.unflushed > 0;
                self.moved(0, Whence::Set, outcome);
            }
            Call::Flush | Call::Where => {
                self.broken = outcome.value < 0;
                self.unflushed = 0;
                if self.last == Last::Output {
                    self.last = Last::Neither;
                }
            }
        }
    }

    fn input(&mut self, done: usize, wanted: usize, outcome: &Outcome) {
        if !self.readable || wanted == 0 {
            return;
        }
        self.last = if outcome.flags.0 { Last::InputToEnd } else { Last::Input };
        if done > 0 {
            self.used = true;
            // Reading the pushed-back byte alone leads to where it was pushed back.
            self.behind_start |= done > usize::from(self.pushed);
            self.pushed = false;
            self.nowhere = false;
        }
    }

    fn output(&mut self, done: usize, wanted: usize, outcome: &Outcome) {
        if !self.writable || wanted == 0 {
            return;
        }
        self.last = Last::Output;
        self.put = true;
        self.used = true;
        self.behind_start = true;
        self.unflushed += done;
        self.broken = outcome.errno != 0;
    }

    fn moved(&mut self, offset: i64, whence: Whence, outcome: &Outcome) {
        if outcome.value < 0 {
            self.dropped = self.pushed;
            if self.kind == Kind::Full && self.last == Last::Output {
                self.broken = true;
            }
            return;
        }
        self.last = Last::Neither;
        self.moved = true;
        self.put = false;
        self.unflushed = 0;
        self.pushed = false;
        self.dropped = false;
        self.nowhere = false;
        self.behind_start = whence == Whence::Set && offset > 0;
        let far = offset >= 1 << 40;
        match whence {
            Whence::Set | Whence::End => (self.far, self.very_far) = (far, offset >= 1 << 60),
            Whence::Current => self.far |= far,
        }
    }
}
