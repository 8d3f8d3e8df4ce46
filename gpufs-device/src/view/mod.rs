//! Files as arrays: a kernel indexes a range of a mapped file, and pages come to device memory when they are needed (`mmap(2)`).
//!
//! The host gives a session bytes for a cache (`Builder::cache`), and maps files (`Session::map`, `Session::map_mut`). A kernel looks at a
//! range of a mapped file through a [`View`] or a [`ViewMut`], which a call lends it.
//!
//! ```
//! use gpufs_device::view::Mapping;
//! use gpufs_device::{Errno, Fs};
//!
//! /// Adds up every `step`th number of a file of `count` numbers.
//! fn sum(fs: Fs, numbers: Mapping, count: u64, step: u64) -> Result<u64, Errno> {
//!     fs.view::<u64, _>(numbers, 0, count, |view| {
//!         let mut sum: u64 = 0;
//!         let mut at = 0;
//!         while at < count {
//!             sum = sum.wrapping_add(view.get(at)?);
//!             at += step;
//!         }
//!         Ok(sum)
//!     })?
//! }
//! ```
//!
//! Lanes of a warp that call together and miss the same page ask for it once, and their misses go out as one batch. The page that a lane used
//! twice in a row is remembered by its view: an access to it is a compare and a load. So is the next page of a scan. Other loads of up to 16 bytes
//! glance at a page that is there: four loads, and nothing that other lanes could wait for is stored.
//!
//! # Files that have room as a whole
//!
//! Where the frames that nobody has suffice for all pages that a file has when it is mapped, they are the file's until it is unmapped, one behind the
//! other, and what was brought there stays. A view that begins when all of the file is there reads at the speed of memory: an access is a
//! compare and a load, and a pin is an address. Such accesses are not counted as hits. So give a session a cache that is a set of 8 pages
//! larger than its files, if it can be, and touch all of a file in a kernel before the one that counts. Files share what is left, half of the
//! frames at least if one of them has no room: then those whose frames lie in that half lose them.
//!
//! # How many pages may be kept
//!
//! A [`Pin`] keeps its page; so does a view, where it can, the page that it remembers. Pages have their place in sets of
//! [`WAYS`](gpufs_core::cache::WAYS) (8), of which one is never kept ([R-CACHE-5]). Any 7 distinct pages may be kept at a time in
//! a session; more, as long as no set has 8. A pin beyond that is `EBUSY`: no call waits for what a lane keeps. Lanes that pin the same
//! page keep one. Of a file that has room as a whole every page may be kept.
//!
//! # What is promised
//!
//! | about | promise |
//! |---|---|
//! | [`View`]: other writers of the file | a page is as it was read when it was brought, for as long as it is in the cache: until the file is unmapped, where that has room as a whole. The host drops it with `Session::unmap` |
//! | [`ViewMut`]: lanes of the session | one copy of each page: what a lane stores, every lane loads, in relaxed order. Two mappings of one file are two copies |
//! | [`ViewMut`]: other readers of the file | see stores after [`ViewMut::flush`], after `Session::synchronize`, or when a page had to go |
//! | [`ViewMut`]: other writers of the file | a dirty page is written whole: what others wrote to it since it was brought is overwritten |
//! | `fread`, `pread`, `fwrite`, `pwrite` of the same session | as others: they do not look at the cache |
//! | [`ViewMut::flush`] | every store that came before it is in the file, for all to read (`msync(2)` with `MS_ASYNC` and more); [`ViewMut::sync`]: on its device (`MS_SYNC`) |
//! | the end of the file | the last page has the bytes that the file had when it was brought. Beyond them is `ENXIO` (a CPU gets `SIGBUS`), for loads and stores: a view never makes a file longer by itself |
//! | truncation by others | pages that are in the cache stay as they are; others are `ENXIO`. A dirty page beyond the new end is written, and makes the file longer again |
//! | errors of reading | reach every lane that touches the page; the next access tries again |
//! | errors of writing | the page stays dirty. They reach `flush`, `Session::synchronize`, and a lane whose page finds no room without that write |
//! | a GPU that faults | dirty pages are lost: they are in its memory, and the journal has none of them. What was flushed is in the file |
//!
//! Views are for lanes of the session's own kernels: threads of the host, and lanes of other sessions, get `EOPNOTSUPP`.

mod flush;
mod mapping;
mod pages;
mod plain;
mod reach;
mod read;
mod window;
mod write;

pub use mapping::{Mapping, MappingMut};
pub use plain::{Plain, Sum, Word};
pub use read::{Pin, View};
pub use write::ViewMut;

use gpufs_core::Errno;
#[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
use gpufs_core::kernel::OfSession;

use crate::Fs;

/// Whether the caller may have a view.
///
/// # Errors
/// `EOPNOTSUPP`.
#[cfg_attr(
    any(target_arch = "nvptx64", target_arch = "amdgpu"),
    expect(clippy::unnecessary_wraps, reason = "an error on the host")
)]
fn check_caller(fs: Fs) -> Result<(), Errno> {
    #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
    if !fs.is_here() {
        return Err(Errno::OPNOTSUPP);
    }
    let _ = fs;
    Ok(())
}
