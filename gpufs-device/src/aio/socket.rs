//! Starting on sockets: bytes that stay where they are, and a wait until a descriptor is ready. None of them has staging memory.

use gpufs_core::abi::Sqe;
use gpufs_core::{Call, Errno};

use super::Pending;
use super::start::Asked;
use crate::Fs;
use crate::file::Descriptor;
use crate::io::{Awaited, Begun, poll_entry};
use crate::warp::Lanes;

/// `MSG_NOSIGNAL` (`send(2)`): a connection that is gone is an error, and no signal.
const NO_SIGNAL: u32 = 0x4000;
/// `MSG_DONTWAIT` (`recv(2)`).
const DONT_WAIT: u32 = 0x40;

/// An operation without staging memory, on a file that may wait for another party.
const IN_PLACE: Asked = Asked { bytes: 0, from: 0, endless: true };

impl Fs {
    /// Starts to receive up to `bytes` bytes at `into`, as [recv(2)](https://man7.org/linux/man-pages/man2/recv.2.html): it is complete when there
    /// are some, with their count, or at the end, with 0. The kernel writes them where they are to lie. The operation waits whatever was said of the
    /// socket (`SOCK_NONBLOCK`), unless `flags` have `MSG_DONTWAIT`.
    ///
    /// # Errors
    /// `EAGAIN`: as many operations as can be are in flight ([module documentation](crate::aio)). `EBADF`, `ENOTSOCK`. What the call itself meets is
    /// [`Pending::wait`]'s: `ECONNRESET`; `EFAULT` for memory that the host does not reach; `EACCES` in a sandbox, where the kernel's rings take no
    /// operation of sockets ([`Fs::recv`] works there).
    ///
    /// # Safety
    /// The bytes lie in one piece of memory that host and device share (`Session::register_buffer`). Until the operation is complete, or the session
    /// has synchronized, nobody reads or writes them, and they stay allocated: whether the [`Pending`] is kept, dropped or forgotten.
    pub unsafe fn start_recv(
        self,
        socket: Descriptor,
        into: *mut u8,
        bytes: u32,
        flags: u32,
    ) -> Result<Pending, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::StartRecv);
        let entry = |fd| Sqe::recv(fd, into as u64, bytes, flags);
        // SAFETY:
        // - this function's contract
        unsafe { self.start_on_socket(lanes, Call::StartRecv, socket, entry) }
    }

    /// [`Fs::start_recv`] where nothing is expected to have come yet, as on a connection whose other end speaks after it was answered: the kernel
    /// waits first, and does not look whether there is something before (`IORING_RECVSEND_POLL_FIRST`, `io_uring_prep_recv(3)`). What has come
    /// all the same is received at once. It always waits.
    ///
    /// # Errors
    /// As [`Fs::start_recv`]; of the call itself `EINVAL` before Linux 5.19, and `EACCES` in each sandbox.
    ///
    /// # Safety
    /// As for [`Fs::start_recv`].
    pub unsafe fn start_recv_when_ready(
        self,
        socket: Descriptor,
        into: *mut u8,
        bytes: u32,
        flags: u32,
    ) -> Result<Pending, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::StartRecvWhenReady);
        let entry = |fd| Sqe::recv_when_ready(fd, into as u64, bytes, flags & !DONT_WAIT);
        // SAFETY:
        // - this function's contract
        unsafe { self.start_on_socket(lanes, Call::StartRecvWhenReady, socket, entry) }
    }

    /// Starts to send `bytes` bytes from `from` on, as [send(2)](https://man7.org/linux/man-pages/man2/send.2.html): it is complete when some are
    /// taken, with their count. The kernel reads them where they lie. It waits as [`Fs::start_recv`] does, and raises no signal.
    ///
    /// # Errors
    /// As [`Fs::start_recv`]; of the call itself `EPIPE`, `ECONNRESET`, `EFAULT` …
    ///
    /// # Safety
    /// As for [`Fs::start_recv`], but that others may read the bytes.
    pub unsafe fn start_send(
        self,
        socket: Descriptor,
        from: *const u8,
        bytes: u32,
        flags: u32,
    ) -> Result<Pending, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::StartSend);
        let entry = |fd| Sqe::send(fd, from as u64, bytes, flags | NO_SIGNAL);
        // SAFETY:
        // - this function's contract
        unsafe { self.start_on_socket(lanes, Call::StartSend, socket, entry) }
    }

    /// Starts to wait until a descriptor is ready for one of `events` ([`POLLIN`](crate::socket::POLLIN) …), has failed or was hung up, as
    /// [poll(2)](https://man7.org/linux/man-pages/man2/poll.2.html) of one without a limit: its count is what it is ready for.
    ///
    /// # Errors
    /// `EAGAIN` as [`Fs::start_recv`]; `EBADF`.
    pub fn start_poll(self, descriptor: Descriptor, events: i16) -> Result<Pending, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::StartPoll);
        let events = u32::from(events.cast_unsigned());
        let begun = Begun::new(self.session(), lanes);
        let awaited = Awaited::new(self.session(), descriptor, events);
        let entry = |_| awaited.map_or(Sqe::nop(), |awaited| poll_entry(awaited.target, events));
        // SAFETY:
        // - the entry refers to no memory
        let started = unsafe { self.start_entry((begun, lanes), false, awaited.map(|_| IN_PLACE), entry) };
        self.told(Call::StartPoll, started)
    }

    /// Starts what `entry` makes of a socket's number. Convergent; called by `lanes`.
    ///
    /// # Safety
    /// As for [`Fs::start_entry`].
    unsafe fn start_on_socket(
        self,
        lanes: Lanes,
        call: Call,
        socket: Descriptor,
        entry: impl Fn(i32) -> Sqe,
    ) -> Result<Pending, Errno> {
        let begun = Begun::new(self.session(), lanes);
        let awaited = Awaited::socket(self.session(), socket, 0);
        let made = |_| match awaited {
            Ok(awaited) if awaited.target.fixed => entry(awaited.target.fd).with_fixed_file(),
            Ok(awaited) => entry(awaited.target.fd),
            // No lane starts one.
            Err(_) => Sqe::nop(),
        };
        // SAFETY:
        // - this function's contract
        let started = unsafe { self.start_entry((begun, lanes), false, awaited.map(|_| IN_PLACE), made) };
        self.told(call, started)
    }
}
