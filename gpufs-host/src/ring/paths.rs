//! Paths under a sandbox: each is resolved beneath a tree, by the kernel (`openat2(2)`, `RESOLVE_BENEATH`), whatever is renamed meanwhile.

use std::ffi::CString;
use std::os::fd::RawFd;
use std::sync::Arc;

use gpufs_core::Errno;

use super::family::{Held, Tree};
use super::sandbox::Rights;
use super::sys::{self, signed};

/// `struct open_how`.
#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

const RESOLVE_NO_MAGICLINKS: u64 = 0x02;
const RESOLVE_BENEATH: u64 = 0x08;
/// A walk that met a rename is tried again so often.
const TRIES: u32 = 64;

/// A directory, and a path that must stay beneath it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    dir: RawFd,
    rest: Vec<u8>,
    pub(super) rights: Rights,
    /// Keeps `dir` open where entries can close it.
    _kept: Option<Arc<Held>>,
}

/// The components of a path, without those that stay where they are.
fn components(path: &[u8]) -> Vec<&[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".").collect()
}

/// What of a path lies below a directory, both absolute.
fn below(path: &[&[u8]], directory: &[u8]) -> Option<Vec<u8>> {
    let directory = components(directory);
    let rest = path.strip_prefix(&directory[..])?;
    Some(rest.join(&b'/'))
}

/// The same path with each `..` and what stands before it taken out.
fn shortened<'a>(path: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let mut short = Vec::new();
    for part in path {
        if *part == b".." {
            short.pop();
        } else {
            short.push(*part);
        }
    }
    short
}

/// Where in the trees an absolute path may lie, deepest tree first.
pub(super) fn places(trees: &[Tree], path: &[u8]) -> Vec<Place> {
    let whole = components(path);
    let mut found = Vec::new();
    for candidate in [whole.clone(), shortened(&whole)] {
        for tree in trees {
            for name in &tree.names {
                if let Some(mut rest) = below(&candidate, name) {
                    if path.ends_with(b"/") && !rest.is_empty() {
                        rest.push(b'/');
                    }
                    found.push((name.len(), Place { dir: tree.fd, rest, rights: tree.rights, _kept: None }));
                }
            }
        }
        if !found.is_empty() {
            break;
        }
    }
    // What an outer tree allows, it allows in an inner one, too.
    let outer: Vec<(usize, Rights)> = found.iter().map(|(depth, place)| (*depth, place.rights)).collect();
    for (depth, place) in &mut found {
        for (other, rights) in &outer {
            if other <= depth && rights.has(place.rights) {
                place.rights = *rights;
            }
        }
    }
    found.sort_by_key(|(depth, _)| std::cmp::Reverse(*depth));
    found.into_iter().map(|(_, place)| place).collect()
}

impl Place {
    /// A path beneath a directory that is held open.
    pub(super) fn beneath(dir: Held, path: &[u8], rights: Rights) -> Self {
        Self { dir: dir.fd, rest: path.to_vec(), rights, _kept: Some(Arc::new(dir)) }
    }

    /// Opens it. What leads out is `EACCES`.
    pub(super) fn open(&self, flags: i32, mode: u32) -> Result<RawFd, Errno> {
        let path = if self.rest.is_empty() { b".".as_slice() } else { &self.rest };
        open_beneath(self.dir, path, flags, mode)
    }

    /// It itself, as a bare path.
    pub(super) fn look(&self, follows: bool) -> Result<Held, Errno> {
        let flags = libc::O_PATH | if follows { 0 } else { libc::O_NOFOLLOW };
        self.open(flags, 0).map(held)
    }

    /// The directory that it is an entry of, and the entry's name. `EACCES` for the tree itself.
    pub(super) fn parent(&self) -> Result<(Held, CString), Errno> {
        let end = self.rest.iter().rposition(|byte| *byte != b'/').ok_or(Errno::ACCES)? + 1;
        let start = self.rest[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let (parent, name) = (&self.rest[..start], &self.rest[start..]);
        if matches!(&self.rest[start..end], b".." | b".") {
            return Err(Errno::ACCES);
        }
        let parent = if parent.is_empty() { b".".as_slice() } else { parent };
        let dir = open_beneath(self.dir, parent, libc::O_PATH | libc::O_DIRECTORY, 0)?;
        Ok((held(dir), CString::new(name).map_err(|_| Errno::INVAL)?))
    }
}

/// A descriptor of the calling thread's table.
/// A descriptor of the calling thread's table, which goes with the value.
pub(super) fn held(fd: RawFd) -> Held {
    Held { fd, family: None }
}

fn open_beneath(dir: RawFd, path: &[u8], flags: i32, mode: u32) -> Result<RawFd, Errno> {
    let path = CString::new(path).map_err(|_| Errno::INVAL)?;
    let how = OpenHow {
        flags: u64::from((flags | libc::O_CLOEXEC).cast_unsigned()),
        mode: mode.into(),
        resolve: RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };
    let (path, address) =
        (path.as_ptr().expose_provenance() as u64, (&raw const how).expose_provenance() as u64);
    let arguments = [signed(dir), path, address, size_of::<OpenHow>() as u64, 0, 0];
    let mut tried = 0;
    // Ends: a walk that meets no rename, or after `TRIES`.
    loop {
        // SAFETY:
        // - the path ends with a NUL, and `how` is as long as said; both are alive
        match unsafe { sys::call(libc::SYS_openat2, arguments) } {
            Err(Errno::AGAIN) if tried < TRIES => tried += 1,
            // It leads out.
            Err(Errno::XDEV) => return Err(Errno::ACCES),
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(name: &str, rights: Rights, fd: RawFd) -> Tree {
        Tree { fd, rights, names: [name.into(), name.into()] }
    }

    #[test]
    fn a_path_is_found_in_the_deepest_tree_that_has_it() {
        let trees = [tree("/data", Rights::READ, 7), tree("/data/out", Rights::CREATE, 8)];
        let found = |path: &str| {
            let first = places(&trees, path.as_bytes()).first().cloned();
            first.map(|place| (place.dir, String::from_utf8(place.rest).unwrap(), place.rights))
        };
        assert_eq!(found("/data/x/../y"), Some((7, "x/../y".into(), Rights::READ)));
        assert_eq!(found("//data/./out//f/"), Some((8, "f/".into(), Rights::CREATE)));
        assert_eq!(found("/other/../data/f"), Some((7, "f".into(), Rights::READ)));
        assert_eq!(found("/data"), Some((7, String::new(), Rights::READ)));
        assert_eq!(found("/database/f"), None);
        assert_eq!(found("/"), None);
        assert_eq!(places(&trees, b"/data/out/../f").len(), 4, "both names of both trees");
    }

    #[test]
    fn an_outer_tree_allows_what_it_allows_in_an_inner_one() {
        let trees = [tree("/data", Rights::CREATE, 7), tree("/data/in", Rights::READ, 8)];
        assert!(places(&trees, b"/data/in/f").iter().all(|place| place.rights == Rights::CREATE));
    }
}
