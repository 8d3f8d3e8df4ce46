//! A seccomp filter.

/// Makes a system call fail with `errno` in all threads of the process; with 0, do nothing and return 0. For good.
///
/// # Errors
/// Why there is no filter.
///
/// # Panics
/// For a number that is no system call's.
pub fn refuse_call(call: i64, errno: i32) -> Result<(), String> {
    refuse_call_of(call, None, errno)
}

/// As [`refuse_call`], where there is a `second` of calls alone whose second argument it is.
///
/// # Errors
/// As [`refuse_call`].
///
/// # Panics
/// As [`refuse_call`].
#[expect(unsafe_code, reason = "installs a seccomp filter")]
pub fn refuse_call_of(call: i64, second: Option<u32>, errno: i32) -> Result<(), String> {
    let statement =
        |code: u32, k: u32| libc::sock_filter { code: u16::try_from(code).unwrap(), jt: 0, jf: 0, k };
    let equals = |value: u32, jf: u8| libc::sock_filter {
        jf,
        ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value)
    };
    let load = |offset: u32| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset);
    let answer = |what: u32| statement(libc::BPF_RET | libc::BPF_K, what);
    // The system call's number is the first word of `struct seccomp_data`, and its second argument's lower half that at 24.
    let number = [load(0), equals(u32::try_from(call).unwrap(), if second.is_some() { 3 } else { 1 })];
    let argument = second.map(|second| [load(24), equals(second, 1)]);
    let answers = [answer(libc::SECCOMP_RET_ERRNO | errno.cast_unsigned()), answer(libc::SECCOMP_RET_ALLOW)];
    let mut filter: Vec<_> =
        number.into_iter().chain(argument.into_iter().flatten()).chain(answers).collect();
    let len = u16::try_from(filter.len()).expect("a few");
    let program = libc::sock_fprog { len, filter: filter.as_mut_ptr() };
    // SAFETY:
    // - the first call takes numbers; the second reads the program and its filter, which are alive
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        let (operation, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
        libc::syscall(libc::SYS_seccomp, operation, flags, &raw const program)
    };
    if refused == 0 { Ok(()) } else { Err(format!("no seccomp filter: {}", std::io::Error::last_os_error())) }
}
