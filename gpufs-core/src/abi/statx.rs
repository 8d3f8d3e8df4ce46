//! What `statx(2)` fills.

use static_assertions::{const_assert, const_assert_eq};

/// A time of `statx(2)`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct StatxTimestamp {
    /// Seconds since the epoch.
    pub tv_sec: i64,
    /// Nanoseconds, 0 to 999,999,999.
    pub tv_nsec: u32,
    /// Zero.
    pub reserved: i32,
}

/// What `statx(2)` writes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Statx {
    /// Which members are filled.
    pub stx_mask: u32,
    /// Preferred size of one transfer, in bytes.
    pub stx_blksize: u32,
    /// Further attributes.
    pub stx_attributes: u64,
    /// Hard links.
    pub stx_nlink: u32,
    /// Owner.
    pub stx_uid: u32,
    /// Group.
    pub stx_gid: u32,
    /// Type and permissions.
    pub stx_mode: u16,
    /// Zero.
    pub spare0: u16,
    /// Inode number.
    pub stx_ino: u64,
    /// Size in bytes.
    pub stx_size: u64,
    /// 512-byte blocks allocated.
    pub stx_blocks: u64,
    /// Which attributes are known.
    pub stx_attributes_mask: u64,
    /// Last access.
    pub stx_atime: StatxTimestamp,
    /// Creation.
    pub stx_btime: StatxTimestamp,
    /// Last status change.
    pub stx_ctime: StatxTimestamp,
    /// Last modification.
    pub stx_mtime: StatxTimestamp,
    /// Major number, if this is a device.
    pub stx_rdev_major: u32,
    /// Minor number, if this is a device.
    pub stx_rdev_minor: u32,
    /// Major number of the device that holds the file.
    pub stx_dev_major: u32,
    /// Minor number of the device that holds the file.
    pub stx_dev_minor: u32,
    /// The mount that holds the file.
    pub stx_mnt_id: u64,
    /// Alignment of memory for direct I/O, in bytes.
    pub stx_dio_mem_align: u32,
    /// Alignment of offsets for direct I/O, in bytes.
    pub stx_dio_offset_align: u32,
    /// What later kernels add.
    pub spare: [u64; 12],
}
const_assert_eq!(size_of::<Statx>(), 256);
const_assert!(align_of::<Statx>() == 8);
