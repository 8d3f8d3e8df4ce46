//! What is searched for, as it lies in the device's memory.

use gpufs_device::portable;

/// The longest string that can be searched for, in bytes.
pub const NEEDLE_BYTES_MAX: usize = 32 << 10;

/// The most bytes of a string that a GPU's lane compares at once.
pub(super) const COMPARED: usize = 3;

/// Bytes of texts, the most frequent first; all others are rarer.
const FREQUENT: &[u8] =
    b" etaoinsrlhdcumpfgybwv\n_.,-k/01\t:()=;2\"'xTSAI*C3E4PDRM586NLO97F{}<>&#jqzBH[]\\UWV|+GX@%$!YJKQZ?~^`";

portable! {
    /// What is searched for.
    pub struct Needle {
        /// 1: a byte of `class`; 0: the string in `bytes`.
        is_class: u32,
        /// Bytes of the string.
        length: u32,
        /// The index in the string of [`COMPARED`] bytes that are rare in texts, or of fewer if it is shorter.
        rare_at: u32,
        /// Bit `b` of the 256 is set if byte `b` is in the class.
        class: [u64; 4],
        bytes: [u8; NEEDLE_BYTES_MAX],
    }
}

impl Needle {
    /// A string without newline and NUL; `None` if it is longer than [`NEEDLE_BYTES_MAX`].
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "at most NEEDLE_BYTES_MAX")]
    pub fn fixed(string: &[u8]) -> Option<Self> {
        let frequency =
            |byte: u8| FREQUENT.iter().rev().position(|&known| known == byte).map_or(0, |at| at + 1);
        // The first byte counts twice: where it is nowhere near, the others are not looked at.
        let compared = string.len().min(COMPARED);
        let rarity = |bytes: &[u8]| {
            bytes.first().map_or(0, |&first| frequency(first))
                + bytes.iter().map(|&byte| frequency(byte)).sum::<usize>()
        };
        let rare_at = (0..=string.len() - compared)
            .min_by_key(|&at| rarity(&string[at..at + compared]))
            .unwrap_or(0) as u32;
        let mut bytes = [0; NEEDLE_BYTES_MAX];
        bytes.get_mut(..string.len())?.copy_from_slice(string);
        Some(Self { is_class: 0, length: string.len() as u32, rare_at, class: [0; 4], bytes })
    }
    /// A byte of a class without newline and NUL.
    #[must_use]
    pub const fn class(class: [u64; 4]) -> Self {
        Self { is_class: 1, length: 0, rare_at: 0, class, bytes: [0; NEEDLE_BYTES_MAX] }
    }
    /// Bytes of a match beyond its first.
    #[must_use]
    pub const fn reach(&self) -> u32 {
        self.length.saturating_sub(1)
    }
    /// The class, if it is one.
    pub(super) fn as_class(&self) -> Option<&[u64; 4]> {
        (self.is_class == 1).then_some(&self.class)
    }
    /// The string.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length as usize]
    }
    /// The index in the string of bytes that are rare in texts.
    #[cfg(any(test, target_arch = "nvptx64", target_arch = "amdgpu"))]
    pub(super) const fn rare_at(&self) -> usize {
        self.rare_at as usize
    }
}
