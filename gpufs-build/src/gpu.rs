//! The GPUs that device code is built for.

use std::error::Error;
use std::fmt;

/// For every GPU: rustc's jump threading copies a call into the branches before it, of warp operations too, so that lanes meet at
/// different places: a ballot then counts only those at its own. Off until the compiler leaves it out for GPUs itself
/// (rust-lang/rust#137086). The second flag tells `gpufs-device`, which does not compile for a GPU without.
const FLAGS: &str = "-Z mir-enable-passes=-JumpThreading --cfg gpufs_no_jump_threading";

/// A GPU that device code is built for: a target of rustc, its processor, and the compiler's flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    triple: &'static str,
    cpu: String,
    flags: &'static str,
}

/// There is no such GPU, or gpufs does not know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuError(String);

impl fmt::Display for GpuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is no GPU that gpufs builds for: sm_70 to sm_121 (NVIDIA), or a gfx number (AMD)",
            self.0
        )
    }
}
impl Error for GpuError {}

impl Gpu {
    /// Every NVIDIA GPU from Volta on: PTX, which the driver translates. sm_70 is the first with the memory model that gpufs speaks; PTX 7.0 is
    /// the first version with all its instructions that every driver since CUDA 11 takes.
    #[must_use]
    pub fn nvidia() -> Self {
        Self { triple: "nvptx64-nvidia-cuda", cpu: "sm_70".to_owned(), flags: "-C target-feature=+ptx70" }
    }
    /// An AMD GPU, by its processor's name, such as `gfx942`.
    ///
    /// # Errors
    /// It is no such name.
    pub fn amd(cpu: &str) -> Result<Self, GpuError> {
        let number = cpu.strip_prefix("gfx").unwrap_or_default();
        if !(3..=4).contains(&number.len()) || !number.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(GpuError(cpu.to_owned()));
        }
        // Without it LLVM 22 leaves pseudo instructions of gfx11 unexpanded (S_ADD_CO_PSEUDO, S_ADD_U64_PSEUDO).
        let flags = if number.len() == 4 && number.starts_with("11") {
            "-C llvm-args=-global-isel=1 -C llvm-args=-global-isel-abort=2"
        } else {
            ""
        };
        Ok(Self { triple: "amdgcn-amd-amdhsa", cpu: cpu.to_owned(), flags })
    }
    /// rustc's name of the target.
    #[must_use]
    pub fn triple(&self) -> &'static str {
        self.triple
    }
    /// The processor, as `-C target-cpu` names it.
    #[must_use]
    pub fn cpu(&self) -> &str {
        &self.cpu
    }
    /// Whether it is NVIDIA's, whose programs are PTX.
    #[must_use]
    pub fn is_nvidia(&self) -> bool {
        self.triple.starts_with("nvptx")
    }
    /// What the compiler is given, in `RUSTFLAGS`' form.
    #[must_use]
    pub fn rustflags(&self) -> String {
        format!("-C target-cpu={} {FLAGS} {}", self.cpu, self.flags).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_known_by_name() {
        assert_eq!(Gpu::amd("gfx942").unwrap().triple(), "amdgcn-amd-amdhsa");
        assert!(Gpu::amd("gfx1100").unwrap().rustflags().contains("global-isel"));
        assert!(!Gpu::amd("gfx90a").unwrap().rustflags().contains("global-isel"));
        for wrong in ["sm_90", "gfx", "gfx9", "gfx12345", "gfxxyz", ""] {
            let said = Gpu::amd(wrong).unwrap_err().to_string();
            assert!(said.contains(wrong) && said.contains("sm_70"), "{said}");
        }
    }
}
