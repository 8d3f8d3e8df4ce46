//! Services of a program: functions of the host that kernels call, each by its name and with types of its own.

use crate::abi::Errno;
pub use bytemuck::{Pod, Zeroable, bytes_of, bytes_of_mut, pod_read_unaligned};

/// The most bytes of a request, and of a reply.
pub const SERVICE_BYTES_MAX: usize = 4096;

/// A function of the host that kernels call: its name, and what it takes and gives. The host registers it (`Builder::service`), a kernel calls it
/// (`Fs::call`). Both name this type, so they agree.
///
/// Both are their bytes ([`Pod`]): numbers, arrays of them, and `repr(C)` structures without padding for which
/// [bytemuck](https://docs.rs/bytemuck) derives or is told this.
pub trait Service {
    /// Its name, which no other service of the session has.
    const NAME: &'static str;
    /// What a kernel asks. At most [`SERVICE_BYTES_MAX`] bytes.
    type Request: Pod;
    /// What the host answers. At most [`SERVICE_BYTES_MAX`] bytes.
    type Reply: Pod;
}

/// The number that a service is known by in an entry of a ring: FNV-1a of its name. The host refuses two services with one key.
#[must_use]
pub const fn key_of(name: &[u8]) -> u64 {
    let mut key = 0xcbf2_9ce4_8422_2325_u64;
    let mut at = 0;
    while at < name.len() {
        key = (key ^ name[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        at += 1;
    }
    key
}

/// What a service gives back, for the host's functions.
pub type Answer<S> = Result<<S as Service>::Reply, Errno>;

#[cfg(test)]
mod tests {
    use super::key_of;

    #[test]
    fn keys_are_fnv_1a() {
        // The test vectors of its authors.
        assert_eq!(key_of(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(key_of(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(key_of(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
