//! Kernels that mean harm, with a sandbox and without: a table of attempts, and of what came of each ([`gpufs_tests::hostile`]).

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt;

use gpufs_core::abi::{IORING_REGISTER_PROBE, PROBE_OPS, Params, Probe};
use gpufs_host::ring::Mode;
use gpufs_tests::closures::{is_child, run_child};
use gpufs_tests::hostile::{attacked, run};
use gpufs_tests::{MODES, Scratch, once, skip, small};

/// The suite knows every operation code of this system's.
#[test]
fn every_operation_code_is_attacked() {
    let mut params = Params::default();
    // SAFETY:
    // - the kernel fills the parameters, which are alive
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, &raw mut params) };
    if ring < 0 {
        return skip("every_operation_code_is_attacked", std::io::Error::last_os_error());
    }
    let ring = i32::try_from(ring).expect("a descriptor");
    // SAFETY:
    // - just made, and nobody else's
    let ring = unsafe { OwnedFd::from_raw_fd(ring) };
    let mut probe = Probe::EMPTY;
    // SAFETY:
    // - the probe is alive, and has room for as many operations
    let asked = unsafe {
        let (register, count) = (libc::SYS_io_uring_register, PROBE_OPS);
        libc::syscall(register, ring.as_raw_fd(), IORING_REGISTER_PROBE, &raw mut probe, count)
    };
    assert_eq!(asked, 0, "{}", std::io::Error::last_os_error());
    let attacked = attacked();
    // `IO_URING_OP_SUPPORTED`.
    let known = probe.ops.iter().filter(|op| op.flags & 1 != 0).map(|op| op.op);
    let missing: Vec<u8> = known.filter(|code| !attacked.contains(code)).collect();
    assert!(missing.is_empty(), "operation codes without an attempt: {missing:?}");
}

/// What is documented of rights that the process gives up after it has opened a session: kernels keep them where Linux's own thread serves the
/// ring, and lose them where the process's threads do.
#[test]
fn rights_given_up_later() {
    const NAME: &str = "rights_given_up_later";
    // SAFETY:
    // - takes nothing
    if unsafe { libc::geteuid() } != 0 {
        return skip(NAME, "only root has rights to give up");
    }
    if !is_child(NAME) {
        return run_child(NAME);
    }
    let scratch = Scratch::new("rights");
    std::fs::set_permissions(scratch.dir(), PermissionsExt::from_mode(0o755)).expect("the test's own");
    // Whom this process then is removes it at the end.
    std::os::unix::fs::chown(scratch.dir(), Some(65534), Some(65534)).expect("the test's own");
    std::fs::write(scratch.path("root-only"), "of root").expect("the test's own");
    std::fs::set_permissions(scratch.path("root-only"), PermissionsExt::from_mode(0o600))
        .expect("the test's own");
    let mut sessions: Vec<_> = MODES
        .into_iter()
        .filter_map(|mode| match small().mode(mode).cpu() {
            Ok(session) => Some((mode, session)),
            Err(error) => {
                skip(&format!("{NAME}, {mode}"), error);
                None
            }
        })
        .collect();
    // SAFETY:
    // - takes numbers; every thread of the process loses its rights
    assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0);
    let path = scratch.c("root-only");
    std::fs::File::open(scratch.path("root-only")).expect_err("the host has no such right any more");
    println!("| opening a file of root's after setresuid | kernels |\n|---|---|");
    for (mode, session) in &mut sessions {
        let opened = once(session, |fs| fs.open(&path, 0, 0).map(drop));
        println!("| {mode} | {opened:?} |");
        // Where Linux's own thread serves: as documented; if Linux has changed, so must SECURITY.md.
        let expected = if *mode == Mode::Sqpoll { Ok(()) } else { Err(gpufs_core::Errno::ACCES) };
        assert_eq!(opened, expected, "{mode}");
    }
}

#[test]
fn operations() {
    run("operations", "operations");
}

#[test]
fn descriptors() {
    run("descriptors", "descriptors");
}

#[test]
fn memory() {
    run("memory", "memory");
}

#[test]
fn services() {
    run("services", "services");
}

#[test]
fn sockets() {
    run("sockets", "sockets");
}

#[test]
fn paths() {
    run("paths", "paths");
}

#[test]
fn others() {
    run("others", "others");
}

#[test]
fn races() {
    run("races", "races");
}

#[test]
fn tables() {
    run("tables", "tables");
}

#[test]
fn channels() {
    run("channels", "channels");
}

#[test]
fn pages() {
    run("pages", "pages");
}
