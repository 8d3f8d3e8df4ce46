//! PTX between the compiler, which writes it, and the assembler.

/// Whether nothing is left to link in the PTX, since nothing links it; `vprintf` is the driver's own.
///
/// # Errors
/// What is left.
pub fn is_whole(ptx: &str) -> Result<(), String> {
    ptx.lines()
        .find(|line| line.starts_with(".extern .func") && !line.trim_end().ends_with(" vprintf"))
        .map_or(Ok(()), |line| Err(format!("unresolved: {line}")))
}

/// What the macro `kernel!` names the constant that says how many registers a thread of a kernel may have, before the kernel's name.
const LIMIT: &str = "gpufs_maxnreg_";
/// What it names the kernel's entry point, before the kernel's name.
const ENTRY: &str = "gpufs_kernel_";

/// The PTX of a whole program as assemblers take it: kernels that say how many registers a thread may have (`#[maxnreg(N)]`) have PTX's
/// directive, `.maxnreg`, which no Rust compiler writes.
///
/// # Errors
/// As [`is_whole`].
pub fn finish(ptx: &str) -> Result<String, String> {
    is_whole(ptx)?;
    let limits: Vec<(&str, u64)> = ptx.lines().filter_map(limit).collect();
    let mut finished = String::with_capacity(ptx.len() + 32 * limits.len());
    let mut wanted = None;
    for line in ptx.lines() {
        if let Some(name) = entry(line) {
            wanted = limits.iter().find(|(limited, _)| *limited == name).map(|(_, registers)| registers);
        }
        if line.starts_with('{')
            && let Some(registers) = wanted.take()
        {
            finished.push_str(&format!(".maxnreg {registers}\n"));
        }
        finished.push_str(line);
        finished.push('\n');
    }
    Ok(finished)
}

/// The kernel and the number of registers of a line that defines such a constant.
fn limit(line: &str) -> Option<(&str, u64)> {
    let (declared, value) = line.strip_suffix(';')?.split_once(" = ")?;
    let name = declared.split_whitespace().last()?.split('[').next()?.strip_prefix(LIMIT)?;
    let registers = match value.strip_prefix('{') {
        None => value.trim().parse().ok()?,
        // Bytes, the lowest first.
        Some(bytes) => {
            let bytes = bytes.trim_end_matches('}').split(',').map(|byte| byte.trim().parse::<u8>());
            bytes.rev().try_fold(0, |sum, byte| byte.map(|byte| sum << 8 | u64::from(byte))).ok()?
        }
    };
    Some((name, registers))
}

/// The kernel of a line that begins an entry point.
fn entry(line: &str) -> Option<&str> {
    let (_, name) = line.split_once(".entry ")?;
    name.split(['(', ' ']).next()?.strip_prefix(ENTRY)
}

/// A part of a program, which is linked with the others.
#[derive(Debug)]
pub(crate) struct Part {
    /// How many registers a thread of its kernels may have, if they say so.
    pub(crate) registers: Option<u32>,
    pub(crate) ptx: String,
}

/// Variables that the compiler makes of constants: each part has its own. All others are the program's, and one for all parts.
const CONSTANTS: [&str; 2] = ["anon_$_", "switch_$_table_$_"];
const REGISTERS: &str = ".maxnreg ";

/// The parts of a finished program: kernels without a limit of registers, and those of each limit, whose functions keep it, too. One at least.
pub(crate) fn parts(finished: &str) -> Vec<Part> {
    let limit = |line: &str| line.strip_prefix(REGISTERS)?.trim().parse().ok();
    let mut limits: Vec<u32> = finished.lines().filter_map(limit).collect();
    limits.sort_unstable();
    limits.dedup();
    let all = core::iter::once(None).chain(limits.into_iter().map(Some));
    all.map(|registers| Part { registers, ptx: part(finished, registers) }).collect()
}

/// The part of the kernels of a limit.
fn part(finished: &str, registers: Option<u32>) -> String {
    let mut part = String::with_capacity(finished.len());
    let mut lines = finished.lines();
    // Ends: with the lines.
    while let Some(line) = lines.next() {
        if !line.contains(".entry ") {
            part.push_str(&statement(line, registers.is_none()));
            part.push('\n');
            continue;
        }
        let (mut kernel, mut own) = (format!("{line}\n"), None);
        for line in lines.by_ref() {
            match line.strip_prefix(REGISTERS) {
                Some(number) => own = number.trim().parse().ok(),
                None => {
                    kernel.push_str(line);
                    kernel.push('\n');
                }
            }
            if line == "}" {
                break;
            }
        }
        if own == registers {
            part.push_str(&kernel);
        }
    }
    part
}

/// A line of a part, of which the first defines what is one for all.
fn statement(line: &str, is_first: bool) -> String {
    let bare = ["visible", "weak"].iter().find_map(|kind| line.strip_prefix(&format!(".{kind} ")));
    if bare.is_some_and(|bare| bare.starts_with(".func")) {
        // Nobody else calls it.
        return bare.unwrap_or(line).to_owned();
    }
    let variable = bare.unwrap_or(line);
    let is_variable = variable.starts_with(".global ") || variable.starts_with(".const ");
    let (declared, _) = variable.split_once(" = ").unwrap_or((variable.trim_end_matches(';'), ""));
    let name = declared.split_whitespace().last().unwrap_or_default();
    if !is_variable || CONSTANTS.iter().any(|kind| name.starts_with(kind)) {
        return line.to_owned();
    }
    if is_first { format!(".visible {variable}") } else { format!(".extern {declared};") }
}

#[cfg(test)]
mod tests {
    use super::{finish, limit, parts};

    /// A program of two kernels, of which one is limited, and a function.
    const PROGRAM: &str = "\
.visible .global .align 4 .u32 gpufs_maxnreg_few = 64;
.visible .entry gpufs_kernel_fewer(
\t.param .u64 gpufs_kernel_fewer_param_0
)
{
\tret;
}
.func other()
{
\tret;
}
.visible .entry gpufs_kernel_few(
\t.param .u64 gpufs_kernel_few_param_0
)
{
\t{ // a block
\t}
\tret;
}
";

    #[test]
    fn the_kernel_that_is_named_has_the_limit() {
        let finished = finish(PROGRAM).expect("whole");
        let wanted = PROGRAM.replace("few_param_0\n)\n{", "few_param_0\n)\n.maxnreg 64\n{");
        assert_eq!(finished, wanted);
        assert_eq!(finished.matches(".maxnreg").count(), 1);
    }

    #[test]
    fn limits_are_numbers_or_bytes() {
        assert_eq!(limit(".global .align 4 .u32 gpufs_maxnreg_a = 64;"), Some(("a", 64)));
        assert_eq!(
            limit(".visible .const .align 4 .b8 gpufs_maxnreg_b[4] = {0, 1, 0, 0};"),
            Some(("b", 256))
        );
        assert_eq!(limit(".global .align 4 .u32 other = 64;"), None);
    }

    #[test]
    fn kernels_of_a_limit_are_a_part_of_their_own() {
        const VARIABLES: &str = ".global .align 1 .b8 anon_$_1[2] = {1, 2};\n.global .align 4 .u32 COUNT = 7;\n.visible .func seen()\n{\n}\n";
        let all = parts(&finish(&format!("{VARIABLES}{PROGRAM}")).expect("whole"));
        let [free, limited] = all.as_slice() else { panic!("two parts: {all:?}") };
        assert_eq!((free.registers, limited.registers), (None, Some(64)));
        for (part, here, there, count) in [
            (free, "gpufs_kernel_fewer(", "gpufs_kernel_few(", ".visible .global .align 4 .u32 COUNT = 7;\n"),
            (limited, "gpufs_kernel_few(", "gpufs_kernel_fewer(", ".extern .global .align 4 .u32 COUNT;\n"),
        ] {
            assert!(part.ptx.contains(here) && !part.ptx.contains(there), "{part:?}");
            assert!(part.ptx.contains(count) && !part.ptx.contains(".maxnreg"), "{part:?}");
            assert_eq!(part.ptx.matches(".func other()\n{\n\tret;\n}\n").count(), 1, "{part:?}");
            assert_eq!(part.ptx.matches("\n.func seen()").count(), 1, "{part:?}");
            assert_eq!(part.ptx.matches("\n}").count(), 3, "{part:?}");
            assert!(part.ptx.starts_with(".global .align 1 .b8 anon_$_1[2] = {1, 2};\n"), "{part:?}");
        }
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        let why = finish(".extern .func missing\n").expect_err("not whole");
        assert!(why.contains("missing"), "{why}");
    }
}
