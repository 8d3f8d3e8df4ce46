//! Each operation's entry, member by member: those of io_uring as `liburing`'s `io_uring_prep_*(3)` fill them, those of the services as the
//! threads that carry them out read them.

use gpufs_core::abi::{self, RecordLock, Sqe};

/// The operation's code, and the members that are not 0, in the order in which they lie.
fn members(entry: Sqe) -> (u8, Vec<(&'static str, u64)>) {
    let all = [
        ("flags", u64::from(entry.flags)),
        ("ioprio", u64::from(entry.ioprio)),
        ("fd", u64::from(entry.fd.cast_unsigned())),
        ("off", entry.off),
        ("addr", entry.addr),
        ("len", u64::from(entry.len)),
        ("op_flags", u64::from(entry.op_flags)),
        ("user_data", entry.user_data),
        ("buf_index", u64::from(entry.buf_index)),
        ("personality", u64::from(entry.personality)),
        ("file_index", u64::from(entry.file_index)),
        ("addr3", entry.addr3),
        ("pad", entry.pad),
    ];
    (entry.opcode, all.into_iter().filter(|(_, value)| *value != 0).collect())
}

/// `-1` as it lies there.
const NO_FD: u64 = 0xffff_ffff;

macro_rules! entries {
    ($($made:expr => $code:ident $($member:ident $value:expr),*;)*) => {$(
        assert_eq!(
            members($made),
            (abi::$code, vec![$((stringify!($member), $value)),*]),
            "{}", stringify!($made)
        );
    )*};
}

#[test]
fn transfers_and_files() {
    entries! {
        Sqe::nop() => IORING_OP_NOP fd NO_FD;
        Sqe::read(3, 4, 5, 6) => IORING_OP_READ fd 3, off 6, addr 4, len 5;
        Sqe::write(3, 4, 5, 6) => IORING_OP_WRITE fd 3, off 6, addr 4, len 5;
        Sqe::read_fixed(3, 4, 5, 6, 7) => IORING_OP_READ_FIXED fd 3, off 6, addr 4, len 5, buf_index 7;
        Sqe::write_fixed(3, 4, 5, 6, 7) => IORING_OP_WRITE_FIXED fd 3, off 6, addr 4, len 5, buf_index 7;
        Sqe::readv(3, 4, 5, 6) => IORING_OP_READV fd 3, off 6, addr 4, len 5;
        Sqe::writev(3, 4, 5, 6) => IORING_OP_WRITEV fd 3, off 6, addr 4, len 5;
        Sqe::fsync(3, 1) => IORING_OP_FSYNC fd 3, op_flags 1;
        Sqe::ftruncate(3, 4) => IORING_OP_FTRUNCATE fd 3, off 4;
        Sqe::fallocate(3, 4, 5, 6) => IORING_OP_FALLOCATE fd 3, off 5, addr 6, len 4;
        Sqe::fadvise(3, 4, 5, 6) => IORING_OP_FADVISE fd 3, off 4, len 5, op_flags 6;
        Sqe::fadvise(3, 4, 0xffff_ffff, 6) => IORING_OP_FADVISE fd 3, off 4, len 0xffff_ffff, op_flags 6;
        Sqe::fadvise(3, 4, 1 << 32, 6) => IORING_OP_FADVISE fd 3, off 4, addr 1 << 32, op_flags 6;
        Sqe::sync_file_range(3, 4, 5, 6) => IORING_OP_SYNC_FILE_RANGE fd 3, off 4, len 5, op_flags 6;
        Sqe::close(3) => IORING_OP_CLOSE fd 3;
        Sqe::close_slot(3) => IORING_OP_CLOSE file_index 4;
        Sqe::files_update(3, 4, 5) => IORING_OP_FILES_UPDATE fd NO_FD, off 5, addr 3, len 4;
        Sqe::poll_add(3, 4) => IORING_OP_POLL_ADD fd 3, op_flags 4;
        Sqe::pollable(3) => IORING_OP_EPOLL_CTL fd 3, off 3, len abi::EPOLL_CTL_DEL.into();
        Sqe::async_cancel(3) => IORING_OP_ASYNC_CANCEL fd NO_FD, addr 3;
        Sqe::splice((3, 4), (5, 6), 7, 8) =>
            IORING_OP_SPLICE fd 5, off 6, addr 4, len 7, op_flags 8, file_index 3;
        Sqe::tee(3, 4, 5, 6) => IORING_OP_TEE fd 4, len 5, op_flags 6, file_index 3;
    }
}

#[test]
fn paths() {
    entries! {
        Sqe::openat(3, 4, 5, 6) => IORING_OP_OPENAT fd 3, addr 4, len 6, op_flags 5;
        Sqe::openat(3, 4, 5, 6).with_target_slot(7) =>
            IORING_OP_OPENAT fd 3, addr 4, len 6, op_flags 5, file_index 8;
        Sqe::openat2(3, 4, 5) => IORING_OP_OPENAT2 fd 3, off 5, addr 4, len 24;
        Sqe::statx(3, 4, 5, 6, 7) => IORING_OP_STATX fd 3, off 7, addr 4, len 6, op_flags 5;
        Sqe::unlinkat(3, 4, 5) => IORING_OP_UNLINKAT fd 3, addr 4, op_flags 5;
        Sqe::renameat(3, 4, 5, 6, 7) => IORING_OP_RENAMEAT fd 3, off 6, addr 4, len 5, op_flags 7;
        Sqe::mkdirat(3, 4, 5) => IORING_OP_MKDIRAT fd 3, addr 4, len 5;
        Sqe::symlinkat(3, 4, 5) => IORING_OP_SYMLINKAT fd 4, off 5, addr 3;
        Sqe::linkat(3, 4, 5, 6, 7) => IORING_OP_LINKAT fd 3, off 6, addr 4, len 5, op_flags 7;
        Sqe::readlink(3, 4, 5, 6) => SERVICE_READLINK fd 3, off 5, addr 4, len 6;
        Sqe::readdir(3, 4, 5, 6) => SERVICE_READDIR fd 3, off 4, addr 5, len 6;
        Sqe::opendir(3, 4, 5, 6) => SERVICE_OPENDIR fd 3, off 5, addr 4, len 6;
        Sqe::closedir(3) => SERVICE_CLOSEDIR fd 3;
        Sqe::truncate(3, 4) => SERVICE_TRUNCATE fd NO_FD, off 4, addr 3;
        Sqe::chmod(3, 4, 5, 6) => SERVICE_CHMOD fd 3, addr 4, len 5, op_flags 6;
        Sqe::fchmod(3, 4) => SERVICE_FCHMOD fd 3, len 4;
        Sqe::utimens(3, 4, (5, 6), (7, 8), 9) =>
            SERVICE_UTIMENS fd 3, off 5, addr 4, len 6, op_flags 9, file_index 8, addr3 7;
        Sqe::access(3, 4, 5, 6) => SERVICE_ACCESS fd 3, addr 4, len 5, op_flags 6;
        Sqe::getcwd(3, 4) => SERVICE_GETCWD fd NO_FD, addr 3, len 4;
        Sqe::chdir(3, 4) => SERVICE_CHDIR fd 3, addr 4;
    }
}

#[test]
fn files_and_processes_of_the_services() {
    let lock = RecordLock { l_type: abi::F_WRLCK, l_whence: 2, l_start: 4, l_len: 5, l_pid: 6 };
    entries! {
        Sqe::add_status_flags(3, 4) => SERVICE_ADD_STATUS_FLAGS fd 3, op_flags 4;
        Sqe::memory_file(3, true) => SERVICE_MEMORY_FILE fd NO_FD, off 3, len 1;
        Sqe::memory_file(3, false) => SERVICE_MEMORY_FILE fd NO_FD, off 3;
        Sqe::duplicate(3) => SERVICE_DUPLICATE fd 3;
        Sqe::resize(3, 4) => SERVICE_RESIZE fd 3, off 4;
        Sqe::umask(3) => SERVICE_UMASK fd NO_FD, len 3;
        Sqe::flock(3, 4) => SERVICE_FLOCK fd 3, op_flags 4;
        Sqe::lock(3, &lock, 7) => SERVICE_LOCK fd 3, off 4, addr 7, len 1 | 2 << 16, file_index 6, addr3 5;
        Sqe::getenv(3, 4, 5) => SERVICE_GETENV fd NO_FD, off 4, addr 3, len 5;
        Sqe::clock_gettime(3, 4) => SERVICE_CLOCK fd NO_FD, addr 4, op_flags 3;
        Sqe::popen(3, true) => SERVICE_POPEN fd NO_FD, addr 3, len 1;
        Sqe::popen(3, false) => SERVICE_POPEN fd NO_FD, addr 3;
        Sqe::child_of(3) => SERVICE_CHILD fd 3;
        Sqe::wait_for(3) => SERVICE_WAIT fd NO_FD, len 3;
        Sqe::call(3, 4, 5, 6) => SERVICE_CALL fd NO_FD, off 3, addr 4, len 5, file_index 6;
        Sqe::pipe() => SERVICE_PIPE fd NO_FD;
        Sqe::eventfd(3, true) => SERVICE_EVENTFD fd NO_FD, len 3, op_flags 1;
        Sqe::eventfd(3, false) => SERVICE_EVENTFD fd NO_FD, len 3;
    }
}

#[test]
fn sockets() {
    let option = 4 | 5 << 32;
    entries! {
        Sqe::accept(3, 4, 5, 6) => IORING_OP_ACCEPT ioprio 2, fd 3, off 5, addr 4, op_flags 6;
        Sqe::send(3, 4, 5, 6) => IORING_OP_SEND fd 3, addr 4, len 5, op_flags 6;
        Sqe::recv(3, 4, 5, 6) => IORING_OP_RECV fd 3, addr 4, len 5, op_flags 6;
        Sqe::sendmsg(3, 4, 5) => IORING_OP_SENDMSG fd 3, addr 4, len 1, op_flags 5;
        Sqe::recvmsg(3, 4, 5) => IORING_OP_RECVMSG fd 3, addr 4, len 1, op_flags 5;
        Sqe::socket(3, 4, 5) => SERVICE_SOCKET fd NO_FD, len 3, op_flags 4, file_index 5;
        Sqe::socketpair(3, 4, 5) => SERVICE_SOCKETPAIR fd NO_FD, len 3, op_flags 4, file_index 5;
        Sqe::other_end(3) => SERVICE_OTHER_END fd 3;
        Sqe::bind(3, 4, 5) => SERVICE_BIND fd 3, addr 4, len 5;
        Sqe::listen(3, 4) => SERVICE_LISTEN fd 3, len 4;
        Sqe::accept_service(3, 4, 5, 6) => SERVICE_ACCEPT fd 3, off 5, addr 4, op_flags 6;
        Sqe::connect(3, 4, 5) => SERVICE_CONNECT fd 3, addr 4, len 5;
        Sqe::shutdown(3, 4) => SERVICE_SHUTDOWN fd 3, len 4;
        Sqe::getsockopt(3, 4, 5, 6, 7) => SERVICE_GETSOCKOPT fd 3, off option, addr 6, len 7;
        Sqe::setsockopt(3, 4, 5, 6, 7) => SERVICE_SETSOCKOPT fd 3, off option, addr 6, len 7;
        Sqe::getsockname(3, 4, 5) => SERVICE_GETSOCKNAME fd 3, addr 4, len 5;
        Sqe::getpeername(3, 4, 5) => SERVICE_GETPEERNAME fd 3, addr 4, len 5;
        Sqe::poll_all(3, 4) => SERVICE_POLL fd NO_FD, addr 3, len 4;
        Sqe::poll_set(3, 4) => SERVICE_POLL_SET fd NO_FD, addr 3, len 4;
        Sqe::poll_end(3) => SERVICE_POLL_END fd 3;
    }
}

#[test]
fn modifiers() {
    let read = Sqe::read(3, 4, 5, 6);
    entries! {
        read.with_user_data(7) => IORING_OP_READ fd 3, off 6, addr 4, len 5, user_data 7;
        read.with_fixed_file() => IORING_OP_READ flags 1, fd 3, off 6, addr 4, len 5;
        read.with_next(false) => IORING_OP_READ flags 4, fd 3, off 6, addr 4, len 5;
        read.with_next(true) => IORING_OP_READ flags 8, fd 3, off 6, addr 4, len 5;
        read.with_worker() => IORING_OP_READ flags 16, fd 3, off 6, addr 4, len 5;
        read.with_transfer_flags(7) => IORING_OP_READ fd 3, off 6, addr 4, len 5, op_flags 7;
    }
    let twice = read.with_fixed_file().with_worker().with_next(true).with_next(false);
    let twice = twice.with_fixed_file().with_worker().with_next(true).with_next(false);
    entries! { twice => IORING_OP_READ flags 29, fd 3, off 6, addr 4, len 5; }
    let all = read.with_fixed_file().with_worker().with_next(true).with_user_data(u64::MAX);
    entries! { all => IORING_OP_READ flags 25, fd 3, off 6, addr 4, len 5, user_data u64::MAX; }
}

#[test]
fn two_operations_are_of_pipes() {
    let all: Vec<u8> = (0..=u8::MAX).filter(|code| abi::is_of_pipes(*code)).collect();
    assert_eq!(all, [abi::IORING_OP_SPLICE, abi::IORING_OP_TEE]);
}

/// As `io_uring_register(2)` fills a probe: operations of which nothing is known are not there, nor those that the kernel lists without the flag.
#[test]
fn an_operation_is_there_where_the_kernel_says_so() {
    let mut probe = abi::Probe { ops_len: 4, ..abi::Probe::EMPTY };
    for (operation, flags) in probe.ops.iter_mut().zip([1, 0, 2, 3, 1]) {
        operation.flags = flags;
    }
    let all: Vec<u8> = (0..=u8::MAX).filter(|code| probe.supports(*code)).collect();
    assert_eq!(all, [0, 3]);
}
