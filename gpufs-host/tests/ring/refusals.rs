//! What is chosen where io_uring is refused, and what the refusals say. A seccomp filter on one thread stands in for the
//! container, the old kernel, or the full table.

use gpufs_core::Errno;
use gpufs_core::abi::Sqe;
use gpufs_host::ring::{Chosen, Mode, Ring, RingConfig, RingError, RingService, choose};

use super::client::Client;

/// Makes `io_uring_setup(2)` fail with `errno` in the calling thread and those that it starts.
fn refuse_io_uring(errno: i32) -> Result<(), String> {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let refusal = libc::SECCOMP_RET_ERRNO | errno.cast_unsigned();
    let mut filter = [
        // The system call's number is the first word of `struct seccomp_data`.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter {
            jf: 1,
            ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_io_uring_setup as u32)
        },
        statement(libc::BPF_RET | libc::BPF_K, refusal),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY:
    // - the first call takes numbers; the second reads the program and its filter, which are alive
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    };
    if result == 0 { Ok(()) } else { Err(format!("no seccomp filter: {}", std::io::Error::last_os_error())) }
}

/// What is chosen in a thread where io_uring fails with `errno`; none, and a SKIP, where that cannot be arranged.
fn choose_where(errno: i32, config: RingConfig) -> Option<Chosen> {
    let thread = std::thread::spawn(move || {
        refuse_io_uring(errno)?;
        let chosen = choose(&config, 2).map_err(|error| error.to_string())?;
        let service = RingService::start(&chosen.rings.iter().collect::<Vec<_>>()).unwrap();
        let _guard = service.busy();
        for ring in &chosen.rings {
            assert_eq!(Client::new(ring).run(Sqe::nop()), 0);
        }
        Ok(chosen)
    });
    match thread.join().unwrap() {
        Ok(chosen) => Some(chosen),
        Err(reason) => {
            let reason: String = reason;
            println!("SKIP refusal {errno}: {reason}");
            None
        }
    }
}

#[test]
fn each_refusal_says_what_is_missing_and_the_remedy() {
    let cases = [
        (libc::ENOSYS, Some(Errno::NOSYS), "Linux 5.11 or later"),
        (libc::EPERM, Some(Errno::PERM), "seccomp"),
        (libc::EACCES, Some(Errno::PERM), "seccomp"),
        (libc::ENOMEM, Some(Errno::NOMEM), "RLIMIT_MEMLOCK"),
        (libc::EMFILE, Some(Errno::MFILE), "ulimit -n"),
        (libc::ENFILE, Some(Errno::NFILE), "fs.file-max"),
        (libc::EINVAL, Some(Errno::INVAL), "io_uring_setup"),
    ];
    for (refusal, errno, text) in cases {
        let Some(chosen) = choose_where(refusal, RingConfig::default()) else { continue };
        println!("{chosen}");
        assert_eq!(chosen.mode, Mode::Threads);
        let modes: Vec<Mode> = chosen.refused.iter().map(|(mode, _)| *mode).collect();
        assert_eq!(modes, [Mode::Sqpoll, Mode::Enter]);
        for (_, reason) in &chosen.refused {
            let sysctl_refuses = matches!(reason, RingError::Forbidden { disabled: Some(1..), .. });
            assert_eq!(reason.errno(), errno);
            assert!(sysctl_refuses || reason.to_string().contains(text), "{reason}");
        }
    }
}

#[test]
fn the_best_that_works_is_chosen() {
    let chosen = choose(&RingConfig::default(), 3).unwrap();
    println!("{chosen}");
    assert_eq!(chosen.rings.len(), 3);
    assert!(chosen.rings.iter().all(|ring| ring.mode() == chosen.mode));
    assert_eq!(chosen.refused.len(), Mode::BEST_FIRST.iter().position(|&mode| mode == chosen.mode).unwrap());

    let threads = choose(&RingConfig { mode: Mode::Threads, ..RingConfig::default() }, 1).unwrap();
    assert_eq!((threads.mode, threads.refused.len()), (Mode::Threads, 0));
}

#[test]
fn a_configuration_that_cannot_be_is_refused_at_once() {
    for (entries, cq_entries) in [(0, 8), (3, 8), (8, 4), (8, 12), (1 << 16, 1 << 16), (8, 1 << 17)] {
        let config = RingConfig { entries, cq_entries, ..RingConfig::default() };
        assert!(matches!(choose(&config, 1), Err(RingError::Config(_))), "{entries} {cq_entries}");
        assert!(Ring::open(&config).is_err());
    }
}
