//! Operations of the service ring: what io_uring has no operation for. gpufs defines their codes; what they do is the system call's of the same
//! name. Host threads do them ([R-SERVE-1]).
//!
//! Every entry here needs one staging buffer at most: where a result takes memory, it may lie where the path lay, since the system takes a
//! path in before it writes a result. What is small travels in the entry itself.

use super::Sqe;

/// Operation codes from here on are services. io_uring has none of them.
pub const SERVICE_OPCODES: u8 = 0xC0;

macro_rules! opcodes {
    ($($name:ident = $value:expr, $text:literal;)*) => {
        $(#[doc = $text] pub const $name: u8 = SERVICE_OPCODES + $value;)*
        /// The services by name.
        pub const SERVICES: &[(&str, u8)] = &[$((stringify!($name), $name)),*];
    };
}

opcodes! {
    SERVICE_READLINK = 0, "`readlinkat(2)`.";
}

impl Sqe {
    /// `readlinkat(2)` of the NUL-terminated string at `path`: its target, without a NUL, to `into`, at most `bytes` of it. Completes with how
    /// many bytes. Both may lie at the same place.
    #[must_use]
    pub const fn readlink(dirfd: i32, path: u64, into: u64, bytes: u32) -> Self {
        Self { opcode: SERVICE_READLINK, fd: dirfd, addr: path, off: into, len: bytes, ..Self::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_have_codes_of_their_own() {
        for (index, (name, code)) in SERVICES.iter().enumerate() {
            assert!(*code >= SERVICE_OPCODES, "{name}");
            assert!(SERVICES[..index].iter().all(|(_, other)| other != code), "{name}");
        }
    }
}
