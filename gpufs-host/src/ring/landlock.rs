//! Landlock ([landlock(7)](https://man7.org/linux/man-pages/man7/landlock.7.html)) for the calling thread: what may be opened,
//! made and removed, and the ports of TCP.

use gpufs_core::Errno;

use super::family::Tree;
use super::sandbox::Rights;
use super::sockets::{Side, Sockets};
use super::sys::{self, signed};

/// `struct landlock_ruleset_attr`.
#[repr(C)]
struct Ruleset {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent_fd: i32,
}

/// `struct landlock_net_port_attr`.
#[repr(C)]
struct NetPort {
    allowed_access: u64,
    port: u64,
}

const CREATE_RULESET: libc::c_long = 444;
const ADD_RULE: libc::c_long = 445;
const RESTRICT_SELF: libc::c_long = 446;
/// Of [`CREATE_RULESET`]: asks for the version.
const VERSION: u64 = 1;
/// Of [`ADD_RULE`].
const PATH_BENEATH: u64 = 1;
const NET_PORT: u64 = 2;

const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_DIR: u64 = 1 << 4;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_DIR: u64 = 1 << 7;
const MAKE_REG: u64 = 1 << 8;
const MAKE_SYM: u64 = 1 << 12;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const BIND_TCP: u64 = 1;
const CONNECT_TCP: u64 = 1 << 1;

/// The version whose rights a sandbox needs, and the Linux that has it first: the third has `TRUNCATE`, the fourth ports of TCP.
const NEEDED: (i32, &str) = (3, "6.2");
const NEEDED_FOR_TCP: (i32, &str) = (4, "6.7");

/// All rights on files that a version knows.
const fn handled(version: i32) -> u64 {
    let bits = match version {
        ..=1 => 13,
        2 => 14,
        3 | 4 => 15,
        _ => 16,
    };
    (1 << bits) - 1
}

const fn allowed(rights: Rights) -> u64 {
    let mut access = READ_FILE | READ_DIR;
    if rights.has(Rights::WRITE) {
        access |= WRITE_FILE | TRUNCATE;
    }
    if rights.has(Rights::CREATE) {
        access |= REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SYM | REFER;
    }
    access
}

fn failed(step: &str, errno: Errno) -> String {
    format!("Landlock, {step}: {errno}")
}

/// The version that this Linux has (its ABI).
///
/// # Errors
/// Why it has none.
pub(super) fn version() -> Result<i32, Errno> {
    // SAFETY:
    // - without a ruleset the call takes no memory
    unsafe { sys::call(CREATE_RULESET, [0, 0, VERSION, 0, 0, 0]) }
}

/// Adds what is allowed to a ruleset: the trees, and rights with their ports.
fn add_rules<'a>(
    rules: i32,
    version: i32,
    trees: &[Tree],
    sides: impl Iterator<Item = &'a (u64, Vec<u16>)>,
) -> Result<(), String> {
    for tree in trees {
        let rule =
            PathBeneath { allowed_access: allowed(tree.rights) & handled(version), parent_fd: tree.fd };
        let address = (&raw const rule).expose_provenance() as u64;
        // SAFETY:
        // - the kernel reads one rule, which is alive
        unsafe { sys::call(ADD_RULE, [signed(rules), PATH_BENEATH, address, 0, 0, 0]) }
            .map_err(|errno| failed("adding a tree", errno))?;
    }
    for (right, port) in sides.flat_map(|(right, ports)| ports.iter().map(move |port| (right, port))) {
        let rule = NetPort { allowed_access: *right, port: u64::from(*port) };
        let address = (&raw const rule).expose_provenance() as u64;
        // SAFETY:
        // - the kernel reads one rule, which is alive
        unsafe { sys::call(ADD_RULE, [signed(rules), NET_PORT, address, 0, 0, 0]) }
            .map_err(|errno| failed("adding a port", errno))?;
    }
    Ok(())
}

/// Restricts the calling thread, and those that it starts, to the trees and to the ports of TCP. What is missing and may be: in the result.
pub(super) fn restrict(
    trees: &[Tree],
    sockets: &Sockets,
    may_be_weaker: bool,
) -> Result<Vec<String>, String> {
    let (needed, linux) = if sockets.has_tcp() { NEEDED_FOR_TCP } else { NEEDED };
    let version = version();
    let mut weaker = Vec::new();
    let lacks = match version {
        Ok(version) if version >= needed => None,
        Ok(version) => Some(format!("Landlock of version {version}, not {needed} (Linux {linux})")),
        Err(errno) => Some(format!(
            "no Landlock ({errno}): Linux 5.13 has it, where it is built in and the boot option `lsm=` names it"
        )),
    };
    if let Some(lack) = lacks {
        if !may_be_weaker {
            return Err(format!(
                "this Linux has {lack}; a sandbox without it is weaker, and has to be asked for: Sandbox::as_far_as_possible"
            ));
        }
        weaker.push(lack);
    }
    let Ok(version) = version else { return Ok(weaker) };
    let sides = [(BIND_TCP, sockets.tcp_ports(Side::At)), (CONNECT_TCP, sockets.tcp_ports(Side::To))];
    // What is allowed for each port is not restricted.
    let sides =
        sides.map(|(right, ports)| if version >= 4 { ports.map(|ports| (right, ports)) } else { None });
    let ruleset = Ruleset {
        handled_access_fs: handled(version),
        handled_access_net: sides.iter().flatten().fold(0, |all, (right, _)| all | right),
        scoped: if version >= 6 { 3 } else { 0 },
    };
    let bytes = match version {
        ..=3 => 8,
        4 | 5 => 16,
        _ => size_of::<Ruleset>() as u64,
    };
    let address = (&raw const ruleset).expose_provenance() as u64;
    // SAFETY:
    // - the kernel reads `bytes` of a ruleset, which is alive
    let rules = unsafe { sys::call(CREATE_RULESET, [address, bytes, 0, 0, 0, 0]) }
        .map_err(|errno| failed("making rules", errno))?;
    add_rules(rules, version, trees, sides.iter().flatten())?;
    // SAFETY:
    // - the call takes numbers
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1_u64, 0_u64, 0_u64, 0_u64) };
    // SAFETY:
    // - the call takes numbers
    unsafe { sys::call(RESTRICT_SELF, [signed(rules), 0, 0, 0, 0, 0]) }
        .map_err(|errno| failed("restricting the thread", errno))?;
    // SAFETY:
    // - made above
    let _ = unsafe { sys::call(libc::SYS_close, [signed(rules), 0, 0, 0, 0, 0]) };
    Ok(weaker)
}
