//! Programs for CPU lanes: the machine's own compiler, the C library's own headers but for streams and files, and `libgpufs`.
//! `start_lanes.c` says what becomes of `main` and `exit`, `names_lanes.c` of names that a program declares by hand.

use std::path::Path;
use std::process::{Command, Output};

use super::scratch::{Scratch, undefined};
use crate::command_line::Options;
use crate::prefix::Prefix;
use crate::tools;

/// Functions that `start_lanes.c` has in the place of the C library's.
const WRAPPED: [&str; 9] =
    ["main", "exit", "_exit", "_Exit", "quick_exit", "atexit", "at_quick_exit", "abort", "__assert_fail"];

pub(super) fn build(options: &Options, output: &Path) -> Result<(), String> {
    let prefix = Prefix::find()?;
    let library = prefix.part("lib/libgpufs.so", "")?;
    let folder = library.parent().expect("a file of a folder");
    let compiler = std::env::var_os("CC").filter(|named| !named.is_empty()).unwrap_or_else(|| "cc".into());
    let compile = |headers: &[&str]| {
        let mut command = Command::new(&compiler);
        let headers: Vec<_> = headers.iter().map(|folder| prefix.path(folder)).collect();
        command.arg("-O2").args(headers.iter().flat_map(|folder| ["-isystem".as_ref(), folder.as_os_str()]));
        command
    };
    let scratch = Scratch::new()?;
    let start = scratch.path("start_lanes.o");
    // Of the program's flags those with which the two must agree to link: its standard of C, its warnings and its macros are its own.
    let of_both = options.flags.iter().filter(|flag| flag.to_string_lossy().starts_with("-f"));
    let mut starting = compile(&["include"]);
    starting.args(of_both).arg("-c").arg(prefix.libc().join("start_lanes.c")).arg("-o").arg(&start);
    run(&mut starting)?;
    let drop_in = ["include/gpufs/drop_in", "include"];
    let names = scratch.path("names_lanes.o");
    // Few programs call them, and each waits for this.
    run(compile(&drop_in)
        .args(["-O0", "-c"])
        .arg(prefix.libc().join("names_lanes.c"))
        .arg("-o")
        .arg(&names))?;
    let mut command = compile(&drop_in);
    command.arg("-fvisibility=hidden").arg("-include").arg(prefix.libc().join("shown_lanes.h"));
    command.args(&options.flags).args(&options.files).args([&start, &names]).arg("-o").arg(output);
    command.args(WRAPPED.map(|name| format!("-Wl,--wrap={name}")));
    command.arg("-L").arg(folder).args(["-lgpufs", "-lm", "-lpthread"]);
    command.arg(format!("-Wl,-rpath,{}", folder.display()));
    let built = output_of(&mut command)?;
    let said = String::from_utf8_lossy(&built.stderr);
    if built.status.success() {
        eprint!("{said}");
        return Ok(());
    }
    let missing: Vec<_> = said
        .lines()
        .filter_map(|line| line.split_once("undefined reference to `")?.1.split('\'').next())
        .map(str::to_owned)
        .collect();
    if missing.iter().any(|name| name == "main" || name == "__real_main") {
        return Err("the program does not link: none of its sources defines main".to_owned());
    }
    Err(if missing.is_empty() { tools::refused(&command, &built) } else { undefined(missing) })
}

fn output_of(compiler: &mut Command) -> Result<Output, String> {
    tools::output(compiler)
        .map_err(|error| format!("{error}: a C compiler (Debian: gcc), or the one that CC names"))
}

fn run(compiler: &mut Command) -> Result<(), String> {
    let built = output_of(compiler)?;
    if built.status.success() { Ok(()) } else { Err(tools::refused(compiler, &built)) }
}
