//! A seccomp filter.

/// Makes a system call fail with `errno` in all threads of the process; with 0, do nothing and return 0. For good.
///
/// # Errors
/// Why there is no filter.
///
/// # Panics
/// For a number that is no system call's.
#[expect(unsafe_code, reason = "installs a seccomp filter")]
pub fn refuse_call(call: i64, errno: i32) -> Result<(), String> {
    let statement =
        |code: u32, k: u32| libc::sock_filter { code: u16::try_from(code).unwrap(), jt: 0, jf: 0, k };
    let jump = statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, u32::try_from(call).unwrap());
    let mut filter = [
        // The system call's number is the first word of `struct seccomp_data`.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter { jf: 1, ..jump },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | errno.cast_unsigned()),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY:
    // - the first call takes numbers; the second reads the program and its filter, which are alive
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        let (operation, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
        libc::syscall(libc::SYS_seccomp, operation, flags, &raw const program)
    };
    if refused == 0 { Ok(()) } else { Err(format!("no seccomp filter: {}", std::io::Error::last_os_error())) }
}
