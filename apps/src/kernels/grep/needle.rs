//! What is looked for, as it lies in the device's memory.

use gpufs_device::portable;

/// The most bytes of a string to look for.
pub const LONGEST_NEEDLE: usize = 32 << 10;

/// Bytes of texts, the most frequent first; all others are rarer.
const FREQUENT: &[u8] =
    b" etaoinsrlhdcumpfgybwv\n_.,-k/01\t:()=;2\"'xTSAI*C3E4PDRM586NLO97F{}<>&#jqzBH[]\\UWV|+GX@%$!YJKQZ?~^`";

portable! {
    /// What to look for.
    pub struct Needle {
        /// 1: a byte of `class`; 0: the string in `bytes`.
        is_class: u32,
        /// Bytes of the string.
        length: u32,
        /// Where in the string a byte stands that is rare in texts.
        rare_at: u32,
        /// Bit `b` of the 256 stands for byte `b`.
        class: [u64; 4],
        bytes: [u8; LONGEST_NEEDLE],
    }
}

impl Needle {
    /// A string without newline and NUL; `None` if it is longer than [`LONGEST_NEEDLE`].
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "at most LONGEST_NEEDLE")]
    pub fn fixed(string: &[u8]) -> Option<Self> {
        let frequency =
            |byte: u8| FREQUENT.iter().rev().position(|&known| known == byte).map_or(0, |at| at + 1);
        let rare_at = (0..string.len()).min_by_key(|&at| frequency(string[at])).unwrap_or(0) as u32;
        let mut bytes = [0; LONGEST_NEEDLE];
        bytes.get_mut(..string.len())?.copy_from_slice(string);
        Some(Self { is_class: 0, length: string.len() as u32, rare_at, class: [0; 4], bytes })
    }
    /// A byte of a class without newline and NUL.
    #[must_use]
    pub const fn class(class: [u64; 4]) -> Self {
        Self { is_class: 1, length: 0, rare_at: 0, class, bytes: [0; LONGEST_NEEDLE] }
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
    /// Where in the string a byte stands that is rare in texts.
    #[cfg(any(test, target_arch = "nvptx64", target_arch = "amdgpu"))]
    pub(super) const fn rare_at(&self) -> usize {
        self.rare_at as usize
    }
}
