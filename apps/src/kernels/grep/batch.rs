//! A unit of short files. Each lane opens and reads one, and looks for the first match in it, alone. Most files have none, and are done then.
//! The warp searches the files with a match together, one file after the other.
#![expect(unsafe_code, reason = "memory that lanes share")]

use core::ffi::CStr;

use gpufs_device::file::{Descriptor, O_RDONLY};
use gpufs_device::{Errno, Fs};

use super::file::Source;
use super::output::write;
use super::survey::Carry;
use super::units::{Unit, room};
use super::{Remark, Show, Warp};

/// A lane's file in a round.
#[derive(Clone, Copy)]
struct Short {
    descriptor: Option<Descriptor>,
    /// Where in the warp's memory its text lies.
    at: usize,
    bytes: usize,
    /// Whether the file has grown beyond its room.
    has_grown: bool,
    remark: Remark,
}

/// Reads until `into` is full or the file ends: the number of bytes. Any lane, each for itself. `expected`: the length that the host saw.
#[inline(never)]
fn read_all(fs: Fs, descriptor: Descriptor, into: &mut [u8], expected: usize) -> Result<usize, Errno> {
    let mut done = 0;
    // Ends: each round reads bytes, or meets the end of the file or an error.
    while done < into.len() {
        match fs.pread(descriptor, &mut into[done..], done as u64)? {
            0 => break,
            count => done += count,
        }
        // The length that the host saw is read, and a longer file would have given more.
        if done == expected && expected > 0 {
            break;
        }
    }
    Ok(done)
}

impl<'a> Warp<'a> {
    /// Searches the short files of a unit. Convergent.
    pub(super) fn batch(&mut self, unit: &Unit) {
        let (mut next, end) = (unit.file, unit.file + unit.files);
        let mut is_left = false;
        // Ends: each round searches at least one file, or output has failed.
        while next < end && !self.is_stopped() {
            let Some(searched) = self.round(next, end, &mut is_left) else { return };
            next = searched;
        }
        self.end_turn();
    }

    /// Searches files from `first` on, one for each lane, as many as the memory holds: where the next round begins. `is_left`: whether the unit
    /// has passed its state to the next one. Convergent.
    fn round(&mut self, first: u32, end: u32, is_left: &mut bool) -> Option<u32> {
        let (job, lanes) = (self.job, self.lanes);
        let file = first + lanes.rank();
        let room = if file < end { room(job.names.length(file)) } else { 0 };
        let before = lanes.scan(room);
        let mut short =
            Short { descriptor: None, at: 0, bytes: 0, has_grown: false, remark: Remark::Nothing };
        let exists = file < end && before + room <= job.text_bytes() as u64;
        if exists {
            #[allow(clippy::cast_possible_truncation, reason = "within the warp's memory")]
            let (at, room) = (before as usize, room as usize);
            self.open_short(file, (at, room), &mut short);
        }
        let matches = self.searcher.is_in(self.short_text(short.at, short.bytes));
        let concerns_all =
            short.descriptor.is_some() && (job.show == Show::Counts || short.has_grown || matches);
        let concerned = lanes.ballot(concerns_all);
        let mut next = first + lanes.ballot(exists).count();
        if !*is_left {
            let is_loud =
                concerned.count() > 0 || next < end || lanes.any(!matches!(short.remark, Remark::Nothing));
            self.receive()?;
            self.leave(&Carry::default(), is_loud);
            *is_left = true;
        }
        // All lanes together, one file after the other.
        for lane in concerned.iter() {
            let number = first + lanes.mask().rank(lane);
            if number >= next {
                break;
            }
            let name = job.names.get(number);
            #[allow(clippy::cast_possible_truncation, reason = "32 bits went in")]
            let descriptor = Descriptor(
                lanes.broadcast(short.descriptor.map_or(0, |file| u64::from(file.0)), lane) as u32,
            );
            let remark = if lanes.any(short.has_grown && lanes.lane() == lane) {
                // The search takes the whole memory of the warp: the files after it are read again in the next round.
                next = number + 1;
                let (remark, carry) = self.search_rest(name, descriptor, 0, Carry::default());
                self.conclude(name, &carry);
                remark
            } else {
                #[allow(clippy::cast_possible_truncation, reason = "within the warp's memory")]
                let (at, bytes) = (
                    lanes.broadcast(short.at as u64, lane) as usize,
                    lanes.broadcast(short.bytes as u64, lane) as usize,
                );
                self.short_file(name, descriptor, self.short_text(at, bytes))
            };
            if lanes.lane() == lane && !matches!(remark, Remark::Nothing) {
                short.remark = remark;
            }
        }
        if let Some(descriptor) = short.descriptor {
            // Nothing was written to it.
            let _ = self.fs.close(descriptor);
        }
        let is_searched = exists && file < next;
        let remarks = lanes.ballot(is_searched && !matches!(short.remark, Remark::Nothing));
        if !remarks.is_empty() {
            self.print_pending();
        }
        for lane in remarks.iter() {
            if lanes.lane() == lane {
                self.print_remark(job.names.get(file), short.remark);
            }
            lanes.sync();
        }
        Some(next)
    }

    /// Opens and reads the caller's own file. Each lane for itself.
    fn open_short(&self, file: u32, (at, room): (usize, usize), short: &mut Short) {
        let (fs, names) = (self.fs, &self.job.names);
        let opened = fs.open(names.get(file), O_RDONLY, 0);
        let read = opened.and_then(|descriptor| {
            short.descriptor = Some(descriptor);
            // SAFETY:
            // - by the scan, only this lane uses the room until the next barrier
            let into = unsafe { self.memory.write(at, at + room) };
            read_all(fs, descriptor, into, usize::try_from(names.length(file)).unwrap_or(usize::MAX))
        });
        match read {
            Ok(bytes) => (short.at, short.bytes, short.has_grown) = (at, bytes, bytes == room),
            Err(errno) => short.remark = Remark::Failed(errno),
        }
    }

    /// The text that [`Warp::open_short`] read. For the lane that read it; for others after a barrier.
    fn short_text(&self, at: usize, bytes: usize) -> &'a [u8] {
        // SAFETY:
        // - read before the barrier; the next round writes only after another
        unsafe { self.memory.read(at, at + bytes) }
    }

    /// Searches a whole file in memory, and prints what it finds. Convergent.
    fn short_file(&mut self, name: &'a CStr, descriptor: Descriptor, text: &'a [u8]) -> Remark {
        let source = Source { name, descriptor, offset: 0, text, own: text.len(), closes: true };
        let mut carry = Carry::default();
        let whole = self.survey(text, 0, text.len());
        let found = self.find_output(&source, &whole, &mut carry);
        self.emit(&source, Carry::default(), &found, &carry);
        self.conclude(name, &carry);
        if found.is_binary && self.job.show == Show::Lines { Remark::BinaryMatches } else { Remark::Nothing }
    }

    /// Prints a message about a file to the standard error. One lane, whose warp has the turn.
    pub(super) fn print_remark(&self, name: &CStr, remark: Remark) {
        let text = match remark {
            Remark::Nothing => return,
            Remark::Failed(errno) => {
                self.job.failed.set(1);
                errno.text()
            }
            Remark::BinaryMatches => "binary file matches",
        };
        // Not printf: its conversions would be most of the device program.
        for piece in [b"grep: ", name.to_bytes(), b": ", text.as_bytes(), b"\n"] {
            // An error of the standard error cannot be reported anywhere.
            let _ = write(self.fs.stderr(), piece);
        }
    }
}
