//! What kind of device program some bytes are, told from how they begin.

use std::ffi::CString;

use super::GpuError;

/// ELF's machine numbers.
const EM_CUDA: u16 = 190;
const EM_AMDGPU: u16 = 224;

/// A device program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// PTX, which the driver compiles.
    Ptx(CString),
    /// A cubin or a fat binary for NVIDIA GPUs, in words so that it is aligned.
    Nvidia(Vec<u64>),
    /// A code object, or a bundle of such, for AMD GPUs, likewise.
    Amd(Vec<u64>),
}

impl Program {
    /// Recognizes a program.
    pub(crate) fn of(bytes: &[u8]) -> Result<Self, GpuError> {
        if bytes.starts_with(b"\x7fELF") {
            let machine = bytes.get(18..20).map_or(0, |machine| u16::from_le_bytes([machine[0], machine[1]]));
            return match machine {
                EM_CUDA => Ok(Self::Nvidia(words(bytes))),
                EM_AMDGPU => Ok(Self::Amd(words(bytes))),
                other => Err(GpuError::Program(format!(
                    "the device program is an ELF file for machine {other}, which is no GPU's"
                ))),
            };
        }
        if bytes.starts_with(&0xba55_ed50_u32.to_le_bytes()) {
            return Ok(Self::Nvidia(words(bytes)));
        }
        if bytes.starts_with(b"__CLANG_OFFLOAD_BUNDLE__") || bytes.starts_with(b"CCOB") {
            return Ok(Self::Amd(words(bytes)));
        }
        let text = bytes.strip_suffix(b"\0").unwrap_or(bytes);
        if text.trim_ascii().is_empty() {
            return Err(GpuError::Program("the device program is empty".to_owned()));
        }
        CString::new(text).map(Self::Ptx).map_err(|_| {
            GpuError::Program(
                "the device program is neither PTX nor a cubin, a fat binary or an AMD code object"
                    .to_owned(),
            )
        })
    }

    /// The names of the kernels in PTX; none of what is compiled already.
    #[cfg(any(feature = "cuda", test))]
    pub(crate) fn kernels(&self) -> Vec<CString> {
        let Self::Ptx(text) = self else { return Vec::new() };
        let text = text.to_string_lossy();
        let name = |entry: &str| {
            let end =
                entry.find(|letter: char| letter != '_' && letter != '$' && !letter.is_ascii_alphanumeric());
            CString::new(&entry[..end.unwrap_or(entry.len())]).ok()
        };
        text.split(".entry").skip(1).filter_map(|rest| name(rest.trim_start())).collect()
    }
}

/// A copy that is aligned as the runtimes may want it, with zeroes to the next word.
fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    };
    bytes.chunks(8).map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(machine: u16) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(18, 0);
        bytes.extend(machine.to_le_bytes());
        bytes.resize(64, 0);
        bytes
    }

    #[test]
    fn programs_are_told_apart() {
        assert!(matches!(Program::of(&elf(190)), Ok(Program::Nvidia(_))));
        assert!(matches!(Program::of(&elf(224)), Ok(Program::Amd(_))));
        assert!(Program::of(&elf(62)).unwrap_err().to_string().contains("machine 62"));
        assert!(matches!(Program::of(b"\x50\xed\x55\xba\x01\0\x10\0"), Ok(Program::Nvidia(_))));
        assert!(matches!(Program::of(b"__CLANG_OFFLOAD_BUNDLE__\0"), Ok(Program::Amd(_))));
        assert!(matches!(Program::of(b".version 7.0\0"), Ok(Program::Ptx(_))));
        assert!(Program::of(b" \n\0").unwrap_err().to_string().contains("empty"));
        assert!(Program::of(b"text\0more").unwrap_err().to_string().contains("neither"));
        let Ok(Program::Nvidia(words)) = Program::of(&elf(190)[..21]) else { panic!() };
        assert_eq!((words.len(), words[2].to_ne_bytes()[..5].to_vec()), (3, vec![0, 0, 190, 0, 0]));
    }

    #[test]
    fn kernels_of_ptx_have_names() {
        let ptx = ".version 7.0\n.visible .entry gpufs_kernel_open(\n .param .u64 a)\n{ ret; }\n.entry\tplain$1 ( )\n";
        let names = Program::of(ptx.as_bytes()).unwrap().kernels();
        assert_eq!(names, [c"gpufs_kernel_open".to_owned(), c"plain$1".to_owned()]);
        assert!(Program::of(&elf(190)).unwrap().kernels().is_empty());
    }
}
