//! `fdopen(3)`, `fileno(3)`: a stream on a descriptor of the session, and back.

use core::ffi::CStr;

use gpufs_core::abi::Sqe;
use gpufs_core::failures::counted;
use gpufs_core::session::OpenFile;
use gpufs_core::stream::{MemoryKind, Stream};
use gpufs_core::{Call, Claim, Errno};

use super::File;
use super::fopen::{begins_at_end, claim, open_flags, stream_on};
use crate::Fs;
use crate::file::{self, Descriptor, O_APPEND, O_RDONLY, O_WRONLY};
use crate::io::serve;
use crate::warp::Lanes;

impl Fs {
    /// Makes a stream on an open descriptor, as `fdopen(3)`. It stands where the descriptor does; with `"a"` at the end. It belongs to the stream
    /// from then on: [`File::fclose`] closes it. It does what its mode says, even where the descriptor is open for more. `"w"` does not truncate, and
    /// `"a"` sets `O_APPEND`, for all users of the descriptor.
    ///
    /// # Errors
    /// `EINVAL` for a mode that begins otherwise than with r, w or a, or that wants what the descriptor was not opened for; `EBADF` for a
    /// descriptor that is not open; `EMFILE` where the session has no stream left. The descriptor stays open.
    pub fn fdopen(self, descriptor: Descriptor, mode: &CStr) -> Result<File, Errno> {
        let session = self.session();
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Fdopen);
        // What the stream is on is known from here on; where the system does not say, it is taken for a file.
        let _ = file::ask(session, lanes, Some(descriptor));
        let checked = open_flags(mode.to_bytes()).and_then(|flags| {
            let (file, has) = session.file_and_flags(descriptor)?;
            let wants = match flags & 3 {
                O_RDONLY => OpenFile::READABLE,
                O_WRONLY => OpenFile::WRITABLE,
                _ => OpenFile::READABLE | OpenFile::WRITABLE,
            };
            if has & wants == wants { Ok((file, flags, has, wants)) } else { Err(Errno::INVAL) }
        });
        let claimed = checked.and_then(|checked| Ok((claim(session)?, checked)));
        let (mut appends, mut sized) = (None, None);
        if let Ok((_, (file, flags, has, _))) = claimed {
            let number = file.descriptor.peek().cast_signed();
            if flags & O_APPEND != 0 && has & OpenFile::APPEND == 0 {
                appends = Some(Sqe::add_status_flags(number, O_APPEND));
            }
            if begins_at_end(flags) {
                sized = Some(number);
            }
        }
        let appended = Errno::check(serve(session, lanes, appends));
        let end = file::size(session, lanes, sized);
        // From here on each lane is on its own.
        let made = claimed.and_then(|(index, (file, _, has, wants))| {
            if let Err(errno) = appended {
                session.streams_free.release(Claim::single(index));
                return Err(errno);
            }
            if appends.is_some() {
                // ORDERING: release, device, partner `Resources::file_and_flags`.
                file.flags.publish(has | OpenFile::APPEND);
            }
            let position = if sized.is_some() { end.unwrap_or(0) } else { file.position.peek() };
            let made = stream_on(session, index, descriptor, position);
            // Nobody else has its handle yet.
            made.stream().flags.set(Stream::without(has & !wants));
            Ok(made)
        });
        counted(session, Call::Fdopen, made)
    }
}

impl File {
    /// The stream's descriptor, as `fileno(3)`. Any lane; no other need call. What the stream has buffered is not in the file yet: before the
    /// descriptor is used, [`File::fflush`] writes it and puts the descriptor where the stream stands; afterwards, [`File::fseek`] moves the stream.
    ///
    /// # Errors
    /// `EBADF` for a closed stream, and for one on memory.
    pub fn fileno(self) -> Result<Descriptor, Errno> {
        let stream = self.stream();
        let file = stream.file.peek();
        // ORDERING: acquire, device, partner `fclose`: the index is of the stream that the handle names.
        let is_open = stream.generation.observe() == self.generation;
        if is_open && stream.memory.kind() == MemoryKind::None {
            Ok(Descriptor(file))
        } else {
            Err(Errno::BADF)
        }
    }
}
