//! Which functions leave it to their callers to keep registers, in programs that are assembled in parts.
//!
//! A function that is assembled apart from its callers saves nearly every register that it uses, although few of them hold values of a caller:
//! `transact_on` saves 113. The directive `.abi_preserve` (PTX ISA 9.0, `sm_80` or newer) says how many registers a function saves; a caller
//! then saves the others that it needs (docs/notes/assembling.md).

use std::path::Path;
use std::process::Command;

/// Ends of the mangled names of such functions, of `gpufs-device`, and how many registers each saves. Not the same number where one calls the other:
/// they return through registers that go by it.
const LIGHT: [(&str, u32); 6] = [
    ("_12gpufs_device2io8transact", 16),
    ("_12gpufs_device2io7staging15transfer_of_one", 16),
    ("_12gpufs_device2io7staging8transfer", 24),
    ("_12gpufs_device3aio5startNtNtB6_2fs2Fs13start_reading", 16),
    ("_12gpufs_device3aio5startNtNtB6_2fs2Fs13start_writing", 16),
    ("_12gpufs_device3aio7pendingNtB4_7Pending11finish_with", 16),
];
/// The version of PTX that has the directive, and the first GPU and the first release of `ptxas` that take it.
const VERSION: &str = ".version 9.0";
const FIRST_GPU: u32 = 80;
const FIRST_RELEASE: u32 = 13;

/// Whether the PTX has all such functions.
#[must_use]
pub fn has_light_functions(ptx: &str) -> bool {
    LIGHT.iter().all(|(light, _)| ptx.lines().filter_map(function).any(|name| name.ends_with(light)))
}

/// Whether the `ptxas` among the tools takes the directive for a GPU such as `sm_90`.
pub(crate) fn is_known(tools: &Path, gpu: &str) -> bool {
    let number = |text: &str| {
        let digits = text.split(|character: char| !character.is_ascii_digit()).next();
        digits.and_then(|digits| digits.parse::<u32>().ok())
    };
    let is_first = |gpu: &str| gpu.strip_prefix("sm_").and_then(number).is_some_and(|gpu| gpu >= FIRST_GPU);
    let release = || {
        let said = Command::new(tools.join("ptxas")).arg("--version").output().ok()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        number(said.split_once("release ")?.1)
    };
    is_first(gpu) && release().is_some_and(|release| release >= FIRST_RELEASE)
}

/// The PTX with the directive at such functions, for that GPU.
pub(crate) fn lightened(ptx: &str, gpu: &str) -> String {
    let mut lightened = String::with_capacity(ptx.len());
    let mut preserved = None;
    for line in ptx.lines() {
        if let Some(name) = function(line) {
            preserved = LIGHT.iter().find(|(light, _)| name.ends_with(light)).map(|(_, count)| count);
        }
        if line.starts_with(['{', ';'])
            && let Some(count) = preserved.take()
        {
            lightened.push_str(&format!(".abi_preserve {count}\n"));
        }
        if line.starts_with(".version ") {
            lightened.push_str(VERSION);
        } else if line.starts_with(".target ") {
            lightened.push_str(&format!(".target {gpu}"));
        } else {
            lightened.push_str(line);
        }
        lightened.push('\n');
    }
    lightened
}

/// The function of a line that declares or defines one.
fn function(line: &str) -> Option<&str> {
    let (before, behind) = line.split_once(".func ")?;
    if !matches!(before.trim(), "" | ".visible" | ".weak" | ".extern") {
        return None;
    }
    let behind = behind.trim_start();
    // What it returns stands before its name.
    let named = if behind.starts_with('(') { behind.split_once(')')?.1 } else { behind };
    named.trim_start().split(['(', ' ', ';']).next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{has_light_functions, lightened};

    const PROGRAM: &str = "\
.version 7.0
.target sm_70
.address_size 64
.func  (.param .b32 func_retval0) _RNvNtCs1_12gpufs_device2io8transact
(
\t.param .b64 _RNvNtCs1_12gpufs_device2io8transact_param_0
)
;
.func other()
{
\tcall.uni (retval0), _RNvNtCs1_12gpufs_device2io8transact, (param0);
\tret;
}
.func  (.param .b32 func_retval0) _RNvNtCs1_12gpufs_device2io8transact(
\t.param .b64 _RNvNtCs1_12gpufs_device2io8transact_param_0
)
{
\t{ // a block
\t}
\tret;
}
";

    #[test]
    fn functions_that_are_named_leave_registers_to_their_callers() {
        let light = lightened(PROGRAM, "sm_90a");
        let wanted = PROGRAM
            .replace(".version 7.0\n.target sm_70", ".version 9.0\n.target sm_90a")
            .replace("param_0\n)\n", "param_0\n)\n.abi_preserve 16\n");
        assert_eq!(light, wanted);
        assert_eq!(light.matches(".abi_preserve").count(), 2);
    }

    #[test]
    fn a_program_without_them_has_none() {
        let other = PROGRAM.replace("8transact", "8transmit");
        assert!(!lightened(&other, "sm_90").contains("abi_preserve"));
        // One of them is not all.
        assert!(!has_light_functions(&other) && !has_light_functions(PROGRAM));
    }
}
