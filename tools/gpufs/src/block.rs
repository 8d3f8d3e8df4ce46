//! The memory that a program on a GPU gets: `struct gpufs_program` of `gpufs-libc/c/program.h`, the strings and pointers of arguments and
//! environment, and the heap, in this order.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Bytes of the structure.
const HEAD: usize = 72;
/// Where its `state` and `status` are.
pub(crate) const OUTCOME: usize = 40;
/// The states that a program ends in.
pub(crate) const EXITED: u32 = 2;
pub(crate) const ABORTED: u32 = 3;

/// What lies before the heap, without addresses, which are known when the memory is there.
#[derive(Debug)]
pub(crate) struct Block {
    arguments: Vec<OsString>,
    variables: Vec<OsString>,
    heap: u64,
}

impl Block {
    pub(crate) fn new(name: &OsStr, arguments: &[OsString], heap: u64) -> Self {
        let variables = std::env::vars_os().map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            name
        });
        Self {
            arguments: std::iter::once(name.to_owned()).chain(arguments.iter().cloned()).collect(),
            variables: variables.collect(),
            heap: heap & !15,
        }
    }

    fn strings(&self) -> impl Iterator<Item = &OsString> {
        self.arguments.iter().chain(&self.variables)
    }

    /// Bytes before the heap, a multiple of 16.
    fn before_heap(&self) -> usize {
        let pointers = 8 * (self.arguments.len() + self.variables.len() + 2);
        let text: usize = self.strings().map(|string| string.len() + 1).sum();
        (HEAD + pointers + text).next_multiple_of(16)
    }

    /// Bytes of the memory.
    pub(crate) fn bytes(&self) -> Option<usize> {
        self.before_heap().checked_add(usize::try_from(self.heap).ok()?)
    }

    /// What lies before the heap, for memory that begins at this address.
    pub(crate) fn image(&self, address: u64) -> Vec<u8> {
        let (arguments, variables) = (self.arguments.len() as u64, self.variables.len() as u64);
        let argv = address + HEAD as u64;
        let envp = argv + 8 * (arguments + 1);
        let mut image = Vec::with_capacity(self.before_heap());
        let mut word = |value: u64| image.extend(value.to_le_bytes());
        word(arguments);
        word(argv);
        word(envp);
        word(address + self.before_heap() as u64);
        word(self.heap);
        // State and status.
        word(0);
        for [one, other] in process() {
            word(u64::from(one) | (u64::from(other) << 32));
        }
        let mut text = envp + 8 * (variables + 1);
        for list in [&self.arguments, &self.variables] {
            for string in list {
                word(text);
                text += string.len() as u64 + 1;
            }
            word(0);
        }
        for string in self.strings() {
            image.extend(string.as_bytes());
            image.push(0);
        }
        image.resize(self.before_heap(), 0);
        image
    }
}

/// The numbers of this process: its own and its parent's; user, effective user; group, effective group.
fn process() -> [[u32; 2]; 3] {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let mut numbers = line.split_whitespace().map(|word| word.parse().unwrap_or(0));
        [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)]
    };
    [[std::process::id(), std::os::unix::process::parent_id()], ids("Uid:"), ids("Gid:")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_lead_to_the_strings() {
        let block = Block::new(OsStr::new("wc"), &["-l".into(), "long name".into()], 1001);
        let base = 0x7000_0000;
        let image = block.image(base);
        let word = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().expect("eight bytes"));
        let string = |address: u64| {
            let text = &image[usize::try_from(address - base).expect("in the image")..];
            String::from_utf8_lossy(&text[..text.iter().position(|&byte| byte == 0).expect("a NUL")])
                .into_owned()
        };
        assert_eq!((word(0), word(8), word(32)), (3, base + 72, 992));
        let argv = 72;
        assert_eq!([0, 8, 16].map(|at| string(word(argv + at))), ["wc", "-l", "long name"]);
        assert_eq!(word(argv + 24), 0);
        assert_eq!(word(16), base + 72 + 32);
        assert!(word(24) % 16 == 0 && word(24) == base + image.len() as u64);
        assert_eq!(block.bytes(), Some(image.len() + 992));
    }
}
