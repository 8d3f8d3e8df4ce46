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

#[cfg(test)]
mod tests {
    use super::{finish, limit};

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
    fn what_is_not_whole_is_refused() {
        let why = finish(".extern .func missing\n").expect_err("not whole");
        assert!(why.contains("missing"), "{why}");
    }
}
