//! Programs for CPU lanes: the machine's own compiler, the C library's own headers but for streams and files, and `libgpufs`.
//! `start_lanes.c` says what becomes of `main` and `exit`.

use std::path::Path;
use std::process::Command;

use super::scratch::undefined;
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
    let mut command = Command::new(&compiler);
    command.arg("-O2").args(&options.flags);
    command
        .arg("-isystem")
        .arg(prefix.path("include/gpufs/drop_in"))
        .arg("-isystem")
        .arg(prefix.path("include"));
    command.args(&options.files).arg(prefix.libc().join("start_lanes.c")).arg("-o").arg(output);
    command.args(WRAPPED.map(|name| format!("-Wl,--wrap={name}")));
    command.arg("-L").arg(folder).args(["-lgpufs", "-lm", "-lpthread"]);
    command.arg(format!("-Wl,-rpath,{}", folder.display()));
    let built = tools::output(&mut command)
        .map_err(|error| format!("{error}: a C compiler (Debian: gcc), or the one that CC names"))?;
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
