//! What `stat(2)` fills, put together from what `statx(2)` filled.

use static_assertions::{const_assert, const_assert_eq};

use super::statx::{Statx, StatxTimestamp};

/// A time of `stat(2)`: `struct timespec`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub struct TimeSpec {
    /// Seconds since the epoch.
    pub tv_sec: i64,
    /// Nanoseconds, 0 to 999,999,999.
    pub tv_nsec: i64,
}

/// `struct stat` of Linux on x86-64, on every device ([stat(3type)](https://man7.org/linux/man-pages/man3/stat.3type.html)).
///
/// ```text
///   0 st_dev(8) st_ino(8) | 16 st_nlink(8) st_mode(4) st_uid(4) | 32 st_gid(4) pad(4) st_rdev(8)
///  48 st_size(8) st_blksize(8) | 64 st_blocks(8) st_atim(16) st_mtim(16) st_ctim(16) | 120 reserved(24)
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Stat {
    /// The device that holds the file, as `makedev(3)` puts it together.
    pub st_dev: u64,
    /// Inode number.
    pub st_ino: u64,
    /// Hard links.
    pub st_nlink: u64,
    /// Type and permissions (`inode(7)`).
    pub st_mode: u32,
    /// Owner.
    pub st_uid: u32,
    /// Group.
    pub st_gid: u32,
    /// Zero.
    pub pad: u32,
    /// The device that this file is, if it is one.
    pub st_rdev: u64,
    /// Size in bytes.
    pub st_size: i64,
    /// Preferred size of one transfer, in bytes.
    pub st_blksize: i64,
    /// 512-byte blocks allocated.
    pub st_blocks: i64,
    /// Last access.
    pub st_atim: TimeSpec,
    /// Last modification.
    pub st_mtim: TimeSpec,
    /// Last status change.
    pub st_ctim: TimeSpec,
    /// Zero.
    pub reserved: [i64; 3],
}
const_assert_eq!(size_of::<Stat>(), 144);
const_assert!(align_of::<Stat>() == 8);

/// `makedev(3)`.
#[must_use]
pub const fn makedev(major: u32, minor: u32) -> u64 {
    let (major, minor) = (major as u64, minor as u64);
    (major & !0xfff) << 32 | (major & 0xfff) << 8 | (minor & !0xff) << 12 | minor & 0xff
}

impl From<StatxTimestamp> for TimeSpec {
    fn from(time: StatxTimestamp) -> Self {
        Self { tv_sec: time.tv_sec, tv_nsec: time.tv_nsec.into() }
    }
}

impl From<&Statx> for Stat {
    fn from(statx: &Statx) -> Self {
        Self {
            st_dev: makedev(statx.stx_dev_major, statx.stx_dev_minor),
            st_ino: statx.stx_ino,
            st_nlink: statx.stx_nlink.into(),
            st_mode: statx.stx_mode.into(),
            st_uid: statx.stx_uid,
            st_gid: statx.stx_gid,
            pad: 0,
            st_rdev: makedev(statx.stx_rdev_major, statx.stx_rdev_minor),
            st_size: statx.stx_size.cast_signed(),
            st_blksize: statx.stx_blksize.into(),
            st_blocks: statx.stx_blocks.cast_signed(),
            st_atim: statx.stx_atime.into(),
            st_mtim: statx.stx_mtime.into(),
            st_ctim: statx.stx_ctime.into(),
            reserved: [0; 3],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_member_comes_from_its_own() {
        let time = |tv_sec, tv_nsec| StatxTimestamp { tv_sec, tv_nsec, ..StatxTimestamp::default() };
        let statx = Statx {
            stx_dev_major: 8,
            stx_dev_minor: 1,
            stx_ino: 2,
            stx_nlink: 3,
            stx_mode: 4,
            stx_uid: 5,
            stx_gid: 6,
            stx_rdev_major: 259,
            stx_rdev_minor: 3,
            stx_size: 7,
            stx_blksize: 8,
            stx_blocks: 9,
            stx_atime: time(-10, 11),
            stx_mtime: time(12, 13),
            stx_ctime: time(14, 999_999_999),
            ..Statx::default()
        };
        let expected = Stat {
            st_dev: 0x801,
            st_ino: 2,
            st_nlink: 3,
            st_mode: 4,
            st_uid: 5,
            st_gid: 6,
            pad: 0,
            st_rdev: 0x1_0303,
            st_size: 7,
            st_blksize: 8,
            st_blocks: 9,
            st_atim: TimeSpec { tv_sec: -10, tv_nsec: 11 },
            st_mtim: TimeSpec { tv_sec: 12, tv_nsec: 13 },
            st_ctim: TimeSpec { tv_sec: 14, tv_nsec: 999_999_999 },
            reserved: [0; 3],
        };
        assert_eq!(Stat::from(&statx), expected);
    }

    #[test]
    fn devices_are_numbered_as_makedev_does() {
        let known = [
            ((0, 0), 0),
            ((8, 1), 0x801),
            ((259, 3), 0x1_0303),
            ((0xfff, 0xf_ffff), 0xffff_ffff),
            ((0x1234_5678, 0x9abc_def0), 0x1234_59ab_cde6_78f0),
        ];
        for ((major, minor), device) in known {
            assert_eq!(makedev(major, minor), device, "{major:#x}:{minor:#x}");
        }
    }
}
