//! `lseek(2)` of a file whose position others share: the one system call of this project that io_uring does not have.
//!
//! The position of a redirected standard stream is that of its open file description, which the program shares with its shell, its
//! children and its own host code. No word of the session can stand for it: a lane that wrote by one would overwrite what the others wrote. So
//! transfers take the kernel's position, and what only moves it or asks for it goes to a host thread over a socket of the file
//! ([`OpenFile::seeker`](crate::files::OpenFile::seeker)): a [`SeekRequest`] is written, the answer is read, both through a ring. The file's lock
//! is held in between, so one request is under way at a time.

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeekRequest {
    /// `lseek(2)`'s offset.
    pub offset: i64,
    /// `SEEK_SET`, `SEEK_CUR` or `SEEK_END`, which Linux numbers 0 to 2.
    pub whence: u32,
}

impl SeekRequest {
    /// Bytes of a request: the offset, then `whence`, both of the machine's byte order.
    pub const BYTES: usize = 12;
    /// Bytes of an answer: an `i64`, the new position or a negated errno.
    pub const ANSWER_BYTES: usize = 8;

    /// As it goes over the socket.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (offset, whence) = bytes.split_at_mut(8);
        offset.copy_from_slice(&self.offset.to_ne_bytes());
        whence.copy_from_slice(&self.whence.to_ne_bytes());
        bytes
    }
    /// The request that these bytes are.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = bytes;
        Self {
            offset: i64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            whence: u32::from_ne_bytes([i, j, k, l]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SeekRequest;

    #[test]
    fn a_request_comes_back_as_it_went() {
        for offset in [0, 1, -1, i64::MIN, i64::MAX, 0x0102_0304_0506_0708] {
            for whence in [0, 1, 2, u32::MAX] {
                let request = SeekRequest { offset, whence };
                assert_eq!(SeekRequest::from_bytes(request.to_bytes()), request);
            }
        }
    }
}
