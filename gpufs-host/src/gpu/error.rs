//! What a GPU's runtime refused, and what that means for whoever reads it.

use std::error::Error;
use std::fmt;
use std::io;

/// Why a GPU could not be used, or what ended a kernel.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum GpuError {
    /// The runtime is not installed. What is missing, and how to get it.
    NoRuntime(String),
    /// There is no such GPU.
    NoDevice {
        /// Whose: "NVIDIA" or "AMD".
        maker: &'static str,
        /// The one that was asked for.
        ordinal: u32,
        /// How many there are.
        count: u32,
    },
    /// The bytes are no program for this GPU.
    Program(String),
    /// An earlier fault has ended the process's use of the GPU, and how to go on.
    Broken(String),
    /// A call failed, or a kernel did not end well.
    Refused(Refusal),
}

/// What a runtime said of a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refusal {
    /// What was tried.
    pub doing: String,
    /// The runtime's number for the error.
    pub code: u32,
    /// Its name, `CUDA_ERROR_…` or `hipError…`.
    pub name: String,
    /// The runtime's own words.
    pub text: String,
    /// What it means here, and what to do; may be empty.
    pub meaning: String,
    /// Whether a fault has broken the GPU's context: device memory is gone with what it held.
    pub fault: bool,
}

impl GpuError {
    /// Whether a fault has broken the GPU's context. Its memory cannot be read any more, and a new session of this GPU takes a new process.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.fault,
            Self::Broken(_) => true,
            _ => false,
        }
    }

    /// The same with more to say about what it means.
    #[cfg(any(feature = "cuda", feature = "hip", test))]
    pub(crate) fn explained(mut self, more: &str) -> Self {
        if let Self::Refused(refusal) = &mut self {
            if !refusal.meaning.is_empty() {
                refusal.meaning.push(' ');
            }
            refusal.meaning.push_str(more);
        }
        self
    }
}

impl Refusal {
    /// What a runtime said, with what it means.
    #[cfg(any(feature = "cuda", feature = "hip", test))]
    pub(crate) fn new(doing: &str, code: u32, name: &str, text: &str) -> Self {
        let (meaning, fault) = meaning(code);
        Self {
            doing: doing.to_owned(),
            code,
            name: name.to_owned(),
            text: text.to_owned(),
            meaning: meaning.to_owned(),
            fault,
        }
    }
}

/// What an error means here, and whether it has broken the context. CUDA and HIP number them alike.
#[cfg(any(feature = "cuda", feature = "hip", test))]
fn meaning(code: u32) -> (&'static str, bool) {
    let fault = matches!(code, 214 | 220 | 700 | 702 | 709 | 710 | 714..=719);
    let meaning = match code {
        2 => {
            "the GPU's memory, or what may be pinned of the host's, is used up; lower Builder::buffers, or free some."
        }
        100 => "the driver is there, but it shows no GPU to this process.",
        200 => {
            "the bytes are no program that this driver reads; give it PTX, a cubin or a fat binary (AMD: a code object)."
        }
        209 => {
            "the program holds no code for this GPU; build for its architecture, or, for NVIDIA, give PTX, which the driver compiles."
        }
        214 | 220 => {
            "the GPU's memory or links had an error that could not be corrected; the hardware wants looking at."
        }
        218 => "the PTX is not valid; build it with `cargo xtask bundle`.",
        221 => "the driver has no compiler for PTX; give a cubin for this GPU.",
        222 => {
            "the PTX is of a newer version than the driver knows; update the driver, or build with an older `-C target-feature=+ptx…`."
        }
        500 => "there is nothing of that name.",
        700 => {
            "a thread used an address that is not mapped for the GPU, or beyond the end of its memory or stack."
        }
        701 => "a block wants more registers or shared memory than a multiprocessor has.",
        702 => {
            "the system ended the kernel because it ran too long; a GPU that drives a display has such a limit."
        }
        709 => "something else in this process has destroyed the GPU's context.",
        710 => "an assertion in the kernel failed.",
        714 => "a thread ran out of stack; raise Builder::gpu_stack.",
        715 => {
            "a thread met an instruction that there is not: a panic in the kernel, or a program for another GPU."
        }
        716 => "a thread used an address that is not a multiple of what is read or written.",
        717 => "a thread used an address of the wrong kind of memory.",
        718 => "a thread jumped to where there is no code.",
        719 => "a thread trapped (a panic in the kernel) or met an exception that has no name of its own.",
        720 => "the grid does not fit on the GPU at once.",
        _ => "",
    };
    (meaning, fault)
}

impl fmt::Display for GpuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRuntime(text) | Self::Program(text) | Self::Broken(text) => f.write_str(text),
            Self::NoDevice { maker, count: 0, .. } => {
                write!(f, "there is no {maker} GPU here that the driver sees; CPU lanes run everywhere")
            }
            Self::NoDevice { maker, ordinal, count } => {
                write!(f, "there is no {maker} GPU {ordinal}: the driver sees {count}, numbered from 0")
            }
            Self::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.doing, self.name)?;
        if !self.text.is_empty() {
            write!(f, " ({})", self.text)?;
        }
        if !self.meaning.is_empty() {
            write!(f, ": {}", self.meaning)?;
        }
        Ok(())
    }
}

impl Error for GpuError {}

impl From<GpuError> for io::Error {
    fn from(error: GpuError) -> Self {
        Self::other(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_who_and_what_then() {
        let refusal =
            Refusal::new("launching greet", 701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources");
        let error = GpuError::Refused(refusal).explained("Use fewer threads.");
        assert_eq!(
            error.to_string(),
            "launching greet: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (too many resources): a block wants more registers or shared memory \
             than a multiprocessor has. Use fewer threads."
        );
        assert!(!error.is_fault());
        let fault = GpuError::Refused(Refusal::new(
            "a kernel",
            700,
            "CUDA_ERROR_ILLEGAL_ADDRESS",
            "an illegal memory access",
        ));
        assert!(fault.is_fault() && fault.to_string().contains("not mapped for the GPU"), "{fault}");
        let none = GpuError::NoDevice { maker: "AMD", ordinal: 0, count: 0 }.to_string();
        assert!(none.contains("no AMD GPU"), "{none}");
    }
}
