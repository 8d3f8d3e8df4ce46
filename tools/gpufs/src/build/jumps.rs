//! `setjmp` and `longjmp` on a GPU, which has no jump from one function into another: the functions between return, one after the other.
//!
//! `longjmp` notes where the jump leads and returns. This pass, over the program's LLVM text, puts a test behind each call from which a jump may
//! come: if one is under way, the function returns, too. In a function with a `setjmp` the test asks first whether the jump leads here, by the
//! address of a variable of its frame, and then goes on behind that `setjmp`. A call from which no jump can come has no test, and a program
//! without `setjmp` and `longjmp` is left as it is.
//!
//! A source with a `setjmp` is compiled without optimizing before the pass: its variables are still in memory then, so that they have their values
//! behind a jump, and no value is used that was computed on another way to the place. What is optimized comes after the pass.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;

/// What `setjmp` is before the pass (`include/gpufs/libc/setjmp.h`).
const SETJMP: &str = "gpufs_setjmp_";
/// The function that begins a jump, in `start.c`.
const LONGJMP: &str = "gpufs_longjmp_";
/// Functions that no jump leaves: the kernel, and what ends the program.
const BARRIERS: [&str; 4] = ["gpufs_program_start", "exit", "quick_exit", "abort"];

/// Whether a source has a `setjmp`.
pub(super) fn sets(module: &str) -> bool {
    module.contains("@gpufs_setjmp_(")
}

/// Whether the pass is needed.
pub(super) fn wanted(module: &str) -> bool {
    sets(module)
        || module.lines().any(|line| {
            line.contains("@gpufs_longjmp_") && !line.starts_with("define") && !line.starts_with("declare")
        })
}

/// Whom a line calls.
#[derive(Debug, PartialEq, Eq)]
enum Callee<'a> {
    Named(&'a str),
    Pointer,
}

/// The call on a line, if it is one of a function: its place behind "call ", and whom.
fn call(line: &str) -> Option<(usize, Callee<'_>)> {
    let text = line.trim_start();
    let instruction = match text.strip_prefix('%') {
        Some(named) => named.split_once(" = ")?.1,
        None => text,
    };
    let begins =
        ["call ", "tail call ", "notail call "].into_iter().find(|begin| instruction.starts_with(begin))?;
    let from = line.len() - instruction.len() + begins.len();
    let rest = &line[from..];
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "$._-".contains(letter);
    // The first name with arguments right behind it: types have a space there.
    for (at, _) in rest.match_indices(['@', '%']) {
        let name = &rest[at + 1..];
        let end = name.find(|letter| !is_name(letter)).unwrap_or(name.len());
        if end > 0 && name[end..].starts_with('(') {
            if rest[..at].contains(" asm ") {
                return None;
            }
            let callee =
                if rest.as_bytes()[at] == b'@' { Callee::Named(&name[..end]) } else { Callee::Pointer };
            return Some((from, callee));
        }
    }
    // An address that is a constant is no name.
    (!rest.contains(" asm ")).then_some((from, Callee::Pointer))
}

/// A function's name, by the line that it begins with.
fn defined(line: &str) -> Option<&str> {
    let (_, name) = line.strip_prefix("define ")?.split_once(" @")?;
    name.split_once('(').map(|(name, _)| name)
}

/// The type that a function returns.
fn returns(line: &str) -> &str {
    let before = line.split_once(" @").map_or("", |(before, _)| before.trim_end());
    let (opening, closing) = match before.chars().next_back() {
        Some('}') => ('{', '}'),
        Some(']') => ('[', ']'),
        Some('>') => ('<', '>'),
        _ => return before.rsplit(' ').next().unwrap_or_default(),
    };
    let mut depth = 0;
    let start = before.char_indices().rev().find(|(_, letter)| {
        depth += i32::from(*letter == closing) - i32::from(*letter == opening);
        depth == 0
    });
    start.map_or("", |(at, _)| &before[at..])
}

/// The label that a line is, if it is one.
fn label(line: &str) -> Option<&str> {
    let end = line.find(|letter: char| !(letter.is_ascii_alphanumeric() || "$._-".contains(letter)))?;
    (end > 0 && line[end..].starts_with(':')).then_some(&line[..end])
}

/// Without what a function promises of its result, where it may return because of a jump.
fn unpromised(text: &str) -> String {
    let mut text = text.replace("noundef ", "").replace("nonnull ", "");
    for promise in ["range(", "dereferenceable(", "dereferenceable_or_null(", "nofpclass("] {
        while let Some(start) = text.find(promise) {
            let Some(length) = text[start..].find(')') else { break };
            text.replace_range(start..(start + length + 2).min(text.len()), "");
        }
    }
    text
}

/// Functions from which a jump may come: which begin one, or call one of them, or one that they do not know.
fn jumping<'a>(functions: &[Function<'a>]) -> HashSet<&'a str> {
    let mut callers: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut jumping: HashSet<&str> = HashSet::from([LONGJMP]);
    let mut next = vec![LONGJMP];
    for function in functions {
        for (_, callee) in function.lines.iter().filter_map(|line| call(line)) {
            match callee {
                Callee::Named(name) => callers.entry(name).or_default().push(function.name),
                Callee::Pointer if BARRIERS.contains(&function.name) => {}
                Callee::Pointer => {
                    if jumping.insert(function.name) {
                        next.push(function.name);
                    }
                }
            }
        }
    }
    while let Some(name) = next.pop() {
        for caller in callers.get(name).into_iter().flatten() {
            if !BARRIERS.contains(caller) && jumping.insert(caller) {
                next.push(caller);
            }
        }
    }
    jumping
}

struct Function<'a> {
    name: &'a str,
    lines: Vec<&'a str>,
}

/// The module after the pass. `on_amd`: variables of a frame lie in an address space of their own.
pub(super) fn made(module: &str, on_amd: bool) -> String {
    let mut functions: Vec<Function<'_>> = Vec::new();
    let mut inside = false;
    for line in module.lines() {
        if let Some(name) = defined(line) {
            functions.push(Function { name, lines: Vec::new() });
            inside = true;
        } else if line == "}" {
            inside = false;
        } else if inside {
            functions.last_mut().expect("in one").lines.push(line);
        }
    }
    let jumping = jumping(&functions);
    let mut text = String::with_capacity(module.len() * 2);
    let mut functions = functions.iter();
    let mut skipping = false;
    for line in module.lines() {
        if defined(line).is_some() {
            let function = functions.next().expect("as above");
            rewrite(&mut text, line, function, &jumping, on_amd);
            skipping = true;
        }
        if !skipping {
            // A function that is not to return may, for a jump. A list of attributes has one at least.
            let plain = match line.starts_with("attributes #") {
                true => line.replace(" noreturn ", " ").replace("{ }", "{ nounwind }"),
                false => line.to_owned(),
            };
            text.push_str(&plain);
            text.push('\n');
        }
        skipping &= line != "}";
    }
    // Where variables of a program lie. What the pass wrote names them as pointers to anywhere.
    let space = if on_amd { "addrspace(1) " } else { "" };
    for (name, of) in [
        ("@gpufs_jump_pending_", "i32"),
        ("@gpufs_jump_value_", "i32"),
        ("@gpufs_jump_place_", "i32"),
        ("@gpufs_jump_frame_", "ptr"),
    ] {
        if on_amd {
            let anywhere = format!("ptr addrspacecast (ptr {space}{name} to ptr)");
            text = text.replace(&format!("ptr {name}"), &anywhere);
        }
        if !module.lines().any(|line| line.starts_with(name)) {
            let _ = writeln!(text, "{name} = external {space}global {of}");
        }
    }
    text
}

/// One function: `head`, its lines, and the end.
fn rewrite(text: &mut String, head: &str, function: &Function<'_>, jumping: &HashSet<&str>, on_amd: bool) {
    let is_jumping = |line: &str| match call(line) {
        Some((_, Callee::Named(name))) => jumping.contains(name),
        Some((_, Callee::Pointer)) => true,
        None => false,
    };
    let sets = |line: &str| matches!(call(line), Some((_, Callee::Named(SETJMP))));
    let has_setjmp = function.lines.iter().any(|line| sets(line));
    if BARRIERS.contains(&function.name) || !(jumping.contains(function.name) || has_setjmp) {
        for line in std::iter::once(&head).chain(&function.lines).chain(&["}"]) {
            let _ = writeln!(text, "{line}");
        }
        return;
    }
    // The last part of each block, for what comes from there.
    let mut parts: BTreeMap<&str, String> = BTreeMap::new();
    let (mut block, mut number) = ("", 0);
    for line in &function.lines {
        if let Some(name) = label(line) {
            block = name;
        } else if sets(line) || is_jumping(line) {
            parts.insert(block, format!("gj.next.{number}"));
            number += 1;
        }
    }
    let (before, after) = head.split_once(" @").expect("a function has a name");
    let _ = writeln!(text, "{} @{after}", unpromised(before).replace(" noreturn ", " "));
    let (mut number, mut places) = (0, BTreeSet::new());
    let mut is_first = true;
    for line in &function.lines {
        if label(line).is_some() {
            let _ = writeln!(text, "{line}");
            if is_first && has_setjmp {
                frame(text, on_amd);
            }
            is_first = false;
            continue;
        }
        if is_first && has_setjmp && !line.trim().is_empty() {
            frame(text, on_amd);
            is_first = false;
        }
        if has_setjmp && line.contains("@llvm.lifetime.") {
            // Behind a jump the variables live again.
            continue;
        }
        if sets(line) {
            places.insert(number);
            set(text, line, number);
            number += 1;
        } else if is_jumping(line) {
            tested(text, line, number);
            number += 1;
        } else if line.contains(" = phi ") {
            let _ = writeln!(text, "{}", from_parts(line, &parts));
        } else {
            let _ = writeln!(text, "{line}");
        }
    }
    leave(text, returns(head), has_setjmp, &places);
    text.push_str("}\n");
}

/// A call, and the test behind it.
fn tested(text: &mut String, line: &str, number: usize) {
    let (from, _) = call(line).expect("it is one");
    let (promises, rest) = split_at_callee(line, from);
    let _ = writeln!(text, "{}{}{rest}", &line[..from], unpromised(promises));
    let _ = writeln!(
        text,
        "  %gj.flag.{number} = load i32, ptr @gpufs_jump_pending_, align 4\n  \
           %gj.is.{number} = icmp ne i32 %gj.flag.{number}, 0\n  \
           br i1 %gj.is.{number}, label %gj.leave, label %gj.next.{number}\ngj.next.{number}:"
    );
}

/// Splits a line behind the place `from` before whom it calls.
fn split_at_callee(line: &str, from: usize) -> (&str, &str) {
    let rest = &line[from..];
    let at = rest.find(['@', '%']).unwrap_or(0);
    rest.split_at(at)
}

/// What a function with a `setjmp` has in its frame. The address of the first is the frame's name.
fn frame(text: &mut String, on_amd: bool) {
    text.push_str(if on_amd {
        "  %gj.own.frame = alloca i64, align 8, addrspace(5)\n  %gj.frame = addrspacecast ptr addrspace(5) %gj.own.frame to ptr\n  \
           %gj.own.value = alloca i32, align 4, addrspace(5)\n  %gj.value = addrspacecast ptr addrspace(5) %gj.own.value to ptr\n"
    } else {
        "  %gj.frame = alloca i64, align 8\n  %gj.value = alloca i32, align 4\n"
    });
}

/// In the place of a `setjmp`: the frame and the place go into the caller's `jmp_buf`, and a jump comes back to the next part with a value.
fn set(text: &mut String, line: &str, number: usize) {
    let (_, arguments) = line.split_once("@gpufs_setjmp_(").expect("it is one");
    // The last parenthesis of the call: an operand may have some.
    let mut depth = 1;
    let end = arguments.find(|letter| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        depth == 0
    });
    let mut buffer = arguments[..end.unwrap_or(arguments.len())].trim_start_matches("ptr ");
    for promise in ["noundef ", "nonnull ", "align 8 ", "align 16 "] {
        buffer = buffer.trim_start_matches(promise);
    }
    let _ = writeln!(
        text,
        "  store ptr %gj.frame, ptr {buffer}, align 8\n  \
           %gj.place.{number} = getelementptr i8, ptr {buffer}, i64 8\n  \
           store i32 {number}, ptr %gj.place.{number}, align 8\n  store i32 0, ptr %gj.value, align 4\n  \
           br label %gj.next.{number}\ngj.next.{number}:"
    );
    if let Some((result, _)) = line.split_once(" = ") {
        let _ = writeln!(text, "{result} = load i32, ptr %gj.value, align 4");
    }
}

/// A phi whose values come from the last parts of the blocks.
fn from_parts(line: &str, parts: &BTreeMap<&str, String>) -> String {
    let mut made = String::new();
    let mut rest = line;
    while let Some(end) = rest.find(" ]") {
        let (pair, after) = rest.split_at(end);
        match pair.rsplit_once(", %").and_then(|(value, from)| Some((value, parts.get(from)?))) {
            Some((value, part)) => {
                let _ = write!(made, "{value}, %{part}");
            }
            None => made.push_str(pair),
        }
        made.push_str(" ]");
        rest = &after[2..];
    }
    made + rest
}

/// Where a function goes when a jump is under way.
fn leave(text: &mut String, result: &str, has_setjmp: bool, places: &BTreeSet<usize>) {
    text.push_str("gj.leave:\n");
    if has_setjmp {
        text.push_str(
            "  %gj.target = load ptr, ptr @gpufs_jump_frame_, align 8\n  %gj.here = icmp eq ptr %gj.target, %gj.frame\n  \
               br i1 %gj.here, label %gj.catch, label %gj.out\ngj.catch:\n  store i32 0, ptr @gpufs_jump_pending_, align 4\n  \
               %gj.brought = load i32, ptr @gpufs_jump_value_, align 4\n  store i32 %gj.brought, ptr %gj.value, align 4\n  \
               %gj.to = load i32, ptr @gpufs_jump_place_, align 4\n  switch i32 %gj.to, label %gj.out [\n",
        );
        for place in places {
            let _ = writeln!(text, "    i32 {place}, label %gj.next.{place}");
        }
        text.push_str("  ]\ngj.out:\n");
    }
    if result == "void" {
        text.push_str("  ret void\n");
    } else {
        let _ = writeln!(text, "  ret {result} zeroinitializer");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found() {
        let callee = |line| call(line).map(|(_, callee)| callee);
        assert_eq!(callee("  %a = tail call noundef i32 @f(ptr noundef %p) #3"), Some(Callee::Named("f")));
        assert_eq!(callee("  call void %fp.1(i32 1)"), Some(Callee::Pointer));
        assert_eq!(
            callee("  %c = call i32 (ptr, ...) @printf(ptr noundef @.str)"),
            Some(Callee::Named("printf"))
        );
        assert_eq!(callee("  %d = call %struct.div_t @div(i32 1, i32 2)"), Some(Callee::Named("div")));
        assert_eq!(callee("  call void asm sideeffect \"exit;\", \"~{memory}\"() #1"), None);
        assert_eq!(callee("  %e = call i32 asm \"mov.u32 $0, %laneid();\", \"=r\"() #1"), None);
        assert_eq!(callee("  store i32 1, ptr @call"), None);
        assert_eq!(callee("  call void inttoptr (i64 4096 to ptr)()"), Some(Callee::Pointer));
    }

    #[test]
    fn results_have_types() {
        assert_eq!(returns("define internal noundef i32 @f() #0 {"), "i32");
        assert_eq!(returns("define { i64, ptr } @f(i32 %a) {"), "{ i64, ptr }");
        assert_eq!(returns("define [2 x { i8, i8 }] @f() {"), "[2 x { i8, i8 }]");
        assert_eq!(unpromised("internal noundef range(i32 0, 2) i32"), "internal i32");
    }

    #[test]
    fn a_module_without_jumps_stays() {
        assert!(!wanted("declare void @gpufs_longjmp_(ptr, i32)\ndefine i32 @main() {\n  ret i32 0\n}\n"));
        assert!(wanted(
            "define i32 @main() {\n  call void @gpufs_longjmp_(ptr null, i32 1)\n  ret i32 0\n}\n"
        ));
    }

    #[test]
    fn blocks_are_split_and_values_come_from_their_ends() {
        let module = "define noundef i32 @f(i1 %c) {\nentry:\n  br i1 %c, label %a, label %b\na:\n  %x = call noundef i32 @g()\n  br label %b\n\
                      b:\n  %y = phi i32 [ 0, %entry ], [ %x, %a ]\n  ret i32 %y\n}\n\
                      define i32 @g() #1 {\nentry:\n  call void @gpufs_longjmp_(ptr null, i32 1)\n  unreachable\n}\n\
                      define i32 @h() {\nentry:\n  %z = call i32 @other()\n  ret i32 %z\n}\nattributes #1 = { noreturn nounwind }\n";
        let made = made(module, false);
        assert!(made.contains("define i32 @f(i1 %c) {\n"), "{made}");
        assert!(made.contains("%y = phi i32 [ 0, %entry ], [ %x, %gj.next.0 ]"), "{made}");
        assert!(made.contains("gj.leave:\n  ret i32 zeroinitializer\n}"), "{made}");
        assert!(made.contains("%z = call i32 @other()\n  ret i32 %z\n}"), "{made}");
        assert!(made.contains("attributes #1 = { nounwind }"), "{made}");
    }

    /// The pass made for this machine: a program of many jumps prints what it prints with the C library's own.
    #[test]
    fn a_program_jumps_as_with_the_c_librarys() {
        const RUNTIME: &str = "#define GPUFS_LIBC_BUILDING\n#include <setjmp.h>\n#include <stdlib.h>\n\
            int gpufs_jump_pending_, gpufs_jump_value_, gpufs_jump_place_;\nvoid *gpufs_jump_frame_;\n\
            void gpufs_longjmp_(struct gpufs_jump *to, int value) {\n  gpufs_jump_frame_ = to->frame; gpufs_jump_place_ = (int)to->place;\n\
            gpufs_jump_value_ = value ? value : 1; gpufs_jump_pending_ = 1;\n}\nint program(int, char **);\n\
            int main(int count, char **words) { int status = program(count, words); if (gpufs_jump_pending_) abort(); return status; }\n";
        // qsort as the pass sees it on a GPU: with the program's own comparison.
        const SORT: &str = "void qsort(void *base, unsigned long items, unsigned long bytes, int (*compare)(const void *, const void *)) {\n\
            char *all = base;\n  for (unsigned long end = items; end > 1; --end) for (unsigned long at = 1; at < end; ++at)\n\
            if (compare(all + (at - 1) * bytes, all + at * bytes) > 0) for (unsigned long byte = 0; byte < bytes; ++byte) {\n\
            char kept = all[at * bytes + byte]; all[at * bytes + byte] = all[(at - 1) * bytes + byte]; all[(at - 1) * bytes + byte] = kept; }\n}\n";
        let Ok(llvm) = crate::tools::Llvm::find() else {
            println!("SKIP a_program_jumps_as_with_the_c_librarys: there is no LLVM 22");
            return;
        };
        let scratch = super::super::Scratch::new().unwrap();
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let source = root.join("tests/c/programs/jumps.c");
        std::fs::copy(root.join("include/gpufs/libc/setjmp.h"), scratch.path("setjmp.h")).unwrap();
        std::fs::write(scratch.path("runtime.c"), RUNTIME).unwrap();
        std::fs::write(scratch.path("sort.c"), SORT).unwrap();
        let clang = |arguments: &[&str], files: &[&std::path::Path], output: &str| {
            let mut clang = llvm.tool("clang");
            clang.args(["-w", "-isystem"]).arg(scratch.path("")).args(arguments).args(files);
            crate::tools::run(clang.arg("-o").arg(scratch.path(output))).unwrap();
        };
        let text = ["-O2", "-Dmain=program", "-Xclang", "-disable-llvm-passes", "-S", "-emit-llvm"];
        clang(&text, &[&source], "jumps.ll");
        clang(&text, &[&scratch.path("sort.c")], "sort.ll");
        let (linked, named) = (scratch.path("linked.bc"), scratch.path("named.ll"));
        let mut link = llvm.tool("llvm-link");
        link.arg(scratch.path("jumps.ll")).arg(scratch.path("sort.ll")).arg("-o").arg(&linked);
        crate::tools::run(&mut link).unwrap();
        let mut opt = llvm.tool("opt");
        crate::tools::run(opt.args(["-S", "-passes=instnamer"]).arg(&linked).arg("-o").arg(&named)).unwrap();
        let module = std::fs::read_to_string(&named).unwrap();
        assert!(wanted(&module));
        std::fs::write(&named, made(&module, false)).unwrap();
        let mut native = std::process::Command::new("cc");
        crate::tools::run(native.arg("-w").arg(&source).arg("-o").arg(scratch.path("native"))).unwrap();
        for level in ["-O0", "-O2"] {
            clang(&[level], &[&named, &scratch.path("runtime.c")], "jumps");
            for words in [&[][..], &["more"]] {
                let [made, expected] = ["jumps", "native"].map(|program| {
                    std::process::Command::new(scratch.path(program)).args(words).output().unwrap()
                });
                assert_eq!(String::from_utf8_lossy(&made.stdout), String::from_utf8_lossy(&expected.stdout));
                assert_eq!((made.status.code(), expected.status.code()), (Some(3), Some(3)));
            }
            let wild = std::process::Command::new(scratch.path("jumps")).arg("wild").output().unwrap();
            assert_eq!(wild.status.code(), None, "a jump to nowhere");
        }
    }
}
