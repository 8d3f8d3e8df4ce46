//! The standard streams of a session: those of the process, or a file that stands in for the standard output.

use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use gpufs_core::session::OpenFile;
use gpufs_core::stream::Buffering;
use gpufs_core::{Claim, Errno};

use super::builder::Builder;
use super::open_error::OpenError;
use super::{Body, files};
use crate::process::is_kept;

/// What stands in for the standard output. Open as long as the builder and its sessions.
#[derive(Clone)]
pub(super) struct StandardOutput(Arc<OwnedFd>);

impl fmt::Debug for StandardOutput {
    /// Which file it is makes no other session: closed ones leave their memory to those with the same choices.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StandardOutput")
    }
}

impl Builder {
    /// What kernels print on the standard output goes to this file, a pipe for example, and not to the process's own. Not for a session with a
    /// sandbox.
    ///
    /// ```
    /// use std::io::Read;
    ///
    /// use gpufs_device::printf;
    /// use gpufs_host::{Grid, Session};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (mut reader, writer) = std::io::pipe()?;
    /// let mut session = Session::builder().standard_output(writer).cpu()?;
    /// session.run(Grid { blocks: 1, threads: 1 }, |fs| printf!(fs, c"%d\n", 42).map(drop).unwrap())?;
    /// drop(session);
    /// let mut text = String::new();
    /// reader.read_to_string(&mut text)?;
    /// assert_eq!(text, "42\n");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn standard_output(mut self, file: impl Into<OwnedFd>) -> Self {
        self.standard_output = Some(StandardOutput(Arc::new(file.into())));
        self
    }
}

/// Refuses what does not go together.
pub(super) fn check(builder: &Builder) -> Result<(), OpenError> {
    if builder.standard_output.is_some() && builder.sandbox.is_some() {
        let text = "standard_output: a session with a sandbox has the process's standard output or none; open a stream for its kernels instead";
        return Err(OpenError::Sandbox(text.to_owned()));
    }
    Ok(())
}

impl Body {
    /// Files and streams 0, 1 and 2. A descriptor that the process has closed gives a stream whose calls fail with `EBADF`.
    pub(super) fn open_standard_streams(&self, output: Option<&StandardOutput>) {
        let tables = self.tables.host;
        for index in 0..3 {
            let file = tables.files_free.claim(1, 0);
            let stream = tables.streams_free.claim(1, 0);
            debug_assert!(file == Some(Claim::single(index)) && stream == Some(Claim::single(index)));
            let descriptor = match output {
                Some(output) if index == 1 => output.0.as_raw_fd(),
                _ => index.cast_signed(),
            };
            if self.confined.as_ref().is_some_and(|confined| !confined.standard_streams) {
                let (file, stream) = (&tables.files()[index as usize], &tables.streams()[index as usize]);
                file.descriptor.set(index);
                let flags = OpenFile::OPEN | OpenFile::HOST_OWNED;
                // ORDERING: release, device, partner `SessionTables::file`.
                file.flags.publish(flags);
                stream.set_up(tables, index, flags, Buffering::Full);
                continue;
            }
            let found = if is_kept(descriptor) { Err(Errno::BADF) } else { files::flags_of(descriptor) };
            let mut flags = found.unwrap_or(OpenFile::OPEN | OpenFile::HOST_OWNED);
            // The position is shared with the program, its children and its shell, so the system's own counts. With a position of
            // the session's, each of them would overwrite what the others wrote.
            if flags & OpenFile::SEEKABLE != 0 {
                flags = flags & !OpenFile::SEEKABLE | OpenFile::SHARED;
            }
            if self.fixed_files && self.rings.iter().all(|ring| ring.update_number(index, descriptor).is_ok())
            {
                flags |= OpenFile::FIXED;
            }
            files::enter(tables, index, descriptor, flags);
            let buffering = match index {
                2 => Buffering::None,
                _ if flags & OpenFile::TERMINAL != 0 => Buffering::Line,
                _ => Buffering::Full,
            };
            let entry = &tables.streams()[index as usize];
            entry.set_up(tables, index, flags, buffering);
            entry.position.set(tables.files()[index as usize].position.peek());
        }
    }
}
