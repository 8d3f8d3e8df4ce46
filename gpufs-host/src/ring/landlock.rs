//! Landlock ([landlock(7)](https://man7.org/linux/man-pages/man7/landlock.7.html)) for the calling thread: what may be opened, made and removed.

use super::family::Tree;
use super::sandbox::Rights;
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

const CREATE_RULESET: libc::c_long = 444;
const ADD_RULE: libc::c_long = 445;
const RESTRICT_SELF: libc::c_long = 446;
/// Of [`CREATE_RULESET`]: asks for the version.
const VERSION: u64 = 1;
/// Of [`ADD_RULE`].
const PATH_BENEATH: u64 = 1;

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

/// The version whose rights a sandbox needs: the third has `TRUNCATE`.
const NEEDED: i32 = 3;

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

/// Restricts the calling thread, and those that it starts, to the trees. What is missing and may be: in the result.
pub(super) fn restrict(trees: &[Tree], may_be_weaker: bool) -> Result<Vec<String>, String> {
    // SAFETY:
    // - without a ruleset the call takes no memory
    let version = unsafe { sys::call(CREATE_RULESET, [0, 0, VERSION, 0, 0, 0]) };
    let mut weaker = Vec::new();
    let lacks = match version {
        Ok(version) if version >= NEEDED => None,
        Ok(version) => Some(format!("Landlock of version {version}, not {NEEDED} (Linux 6.2)")),
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
    let ruleset = Ruleset {
        handled_access_fs: handled(version),
        handled_access_net: if version >= 4 { 3 } else { 0 },
        scoped: if version >= 6 { 3 } else { 0 },
    };
    let bytes = match version {
        ..=3 => 8,
        4 | 5 => 16,
        _ => size_of::<Ruleset>() as u64,
    };
    let failed = |step: &str, errno| format!("Landlock, {step}: {errno}");
    let address = (&raw const ruleset).expose_provenance() as u64;
    // SAFETY:
    // - the kernel reads `bytes` of a ruleset, which is alive
    let rules = unsafe { sys::call(CREATE_RULESET, [address, bytes, 0, 0, 0, 0]) }
        .map_err(|errno| failed("making rules", errno))?;
    for tree in trees {
        let rule =
            PathBeneath { allowed_access: allowed(tree.rights) & handled(version), parent_fd: tree.fd };
        let address = (&raw const rule).expose_provenance() as u64;
        // SAFETY:
        // - the kernel reads one rule, which is alive
        unsafe { sys::call(ADD_RULE, [signed(rules), PATH_BENEATH, address, 0, 0, 0]) }
            .map_err(|errno| failed("adding a tree", errno))?;
    }
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
