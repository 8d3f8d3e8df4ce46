//! How much stack the kernels of a program take that is assembled in parts, which nvlink does not say of those that call through pointers.

use std::collections::{HashMap, HashSet};

/// The frames of functions and kernels, in bytes, from what `ptxas -v` says.
pub(crate) fn frames(said: &str) -> HashMap<&str, u64> {
    let (mut frames, mut named) = (HashMap::new(), None);
    for line in said.lines() {
        if let Some((_, name)) = line.split_once("Function properties for ") {
            named = Some(name.trim());
        } else if let (Some(name), Some((bytes, _))) = (named.take(), line.split_once(" bytes stack frame")) {
            frames.insert(name, bytes.trim().parse().unwrap_or(0));
        }
    }
    frames
}

/// The most stack that a kernel of the PTX takes, with all that it calls: a function that is called through a pointer may be any whose address is
/// taken, and one that calls itself counts once.
pub(crate) fn deepest(ptx: &str, frames: &HashMap<&str, u64>) -> u64 {
    let (functions, constants) = functions(ptx);
    let names: HashSet<&str> = functions.iter().map(|function| function.name).collect();
    let bodies = functions.iter().flat_map(|function| function.body.split(';'));
    let moved = bodies.filter(|statement| statement.trim_start().starts_with("mov."));
    let mentioned = constants.into_iter().chain(moved).flat_map(words);
    let taken: Vec<&str> =
        mentioned.filter(|word| names.contains(word)).collect::<HashSet<_>>().into_iter().collect();
    let calls = functions
        .iter()
        .map(|function| {
            let mut called = Vec::new();
            for name in function.body.split("\tcall").skip(1).filter_map(target) {
                if name.starts_with('%') { called.extend(&taken) } else { called.push(name) }
            }
            (function.name, called)
        })
        .collect();
    let mut known = HashMap::new();
    let entries = functions.iter().filter(|function| function.is_kernel);
    entries.map(|function| depth(function.name, &calls, frames, &mut known)).max().unwrap_or(0)
}

struct Function<'t> {
    name: &'t str,
    is_kernel: bool,
    body: &'t str,
}

/// What is defined: functions, and the lines of variables.
fn functions(ptx: &str) -> (Vec<Function<'_>>, Vec<&str>) {
    let (mut functions, mut constants) = (Vec::new(), Vec::new());
    let mut rest = ptx;
    // Ends: `rest` gets shorter.
    while !rest.is_empty() {
        let (line, behind) = rest.split_once('\n').unwrap_or((rest, ""));
        let (is_kernel, is_function) = (line.contains(".entry "), line.contains(".func "));
        let end = rest.find("\n}").filter(|_| is_kernel || is_function);
        // A declaration ends before a body begins.
        let declared = rest.find(';').zip(rest.find('{')).is_some_and(|(end, body)| end < body);
        match end.filter(|_| !declared) {
            Some(end) => {
                if let Some(name) = name_of(line) {
                    functions.push(Function { name, is_kernel, body: &rest[..end] });
                }
                rest = &rest[end + 2..];
            }
            None => {
                if line.contains(".global ") {
                    constants.push(line);
                }
                rest = behind;
            }
        }
    }
    (functions, constants)
}

/// The name that the first line of a function or kernel gives it, behind what it returns.
fn name_of(line: &str) -> Option<&str> {
    let (_, behind) = line.split_once(".entry ").or_else(|| line.split_once(".func "))?;
    let behind = behind.trim_start();
    let named = if behind.starts_with('(') { behind.split_once(')')?.1 } else { behind };
    words(named).next()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_$%".contains(letter);
    text.split(move |letter| !is_part(letter)).filter(|word| !word.is_empty())
}

/// What is called, from behind the word `call`: a name, or a register.
fn target(behind: &str) -> Option<&str> {
    let behind = behind.strip_prefix(".uni").unwrap_or(behind).trim_start();
    let named = if behind.starts_with('(') { behind.split_once(')')?.1 } else { behind };
    words(named).next()
}

fn depth<'t>(
    name: &'t str,
    calls: &HashMap<&'t str, Vec<&'t str>>,
    frames: &HashMap<&str, u64>,
    known: &mut HashMap<&'t str, u64>,
) -> u64 {
    if let Some(bytes) = known.get(name) {
        return *bytes;
    }
    // For those that come back here.
    known.insert(name, 0);
    let called = calls.get(name).map_or(&[][..], Vec::as_slice);
    let below = called.iter().map(|name| depth(name, calls, frames, known)).max().unwrap_or(0);
    let bytes = frames.get(name).copied().unwrap_or(0) + below;
    known.insert(name, bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::{deepest, frames};

    const PTX: &str = "\
.extern .func (.param .b32 func_retval0) vprintf
(
\t.param .b64 vprintf_param_0
);
.global .align 8 .u64 table[2] = {16, pointed};
.func  (.param .b32 func_retval0) leaf(
\t.param .b32 leaf_param_0
)
{
\t{ // a call
\t}
\tret;
}
.func pointed()
{
\tcall.uni (retval0), leaf, (param0);
\tcall.uni pointed, ();
\tret;
}
.visible .entry gpufs_kernel_one(
\t.param .b64 gpufs_kernel_one_param_0
)
{
\tcall (retval0), %rd3, (param0), prototype_0;
\tret;
}
.visible .entry gpufs_kernel_two()
{
\tcall.uni
\t(retval0),
\tleaf,
\t(param0);
\tret;
}
";
    const SAID: &str = "\
ptxas info    : 24 bytes gmem
ptxas info    : Function properties for leaf
    100 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for pointed
    20 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'gpufs_kernel_one' for 'sm_90'
ptxas info    : Function properties for gpufs_kernel_one
    3 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for gpufs_kernel_two
    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
";

    #[test]
    fn stack_is_that_of_the_longest_way() {
        let frames = frames(SAID);
        assert_eq!(frames.get("pointed"), Some(&20));
        assert_eq!(deepest(PTX, &frames), 3 + 20 + 100);
        assert_eq!(deepest(&PTX.replace("%rd3", "leaf"), &frames), 8 + 100);
    }
}
