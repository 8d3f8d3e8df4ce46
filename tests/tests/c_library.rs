//! The C half of `gpufs-libc` (`gpufs-libc/c`), which GPUs have, built for this machine under other names and compared with the machine's C library
//! by `tests/c/libc/beside.c`.

use std::process::{Command, Output};

use gpufs_tests::compilers::{LIBRARY, c_compilers, installed, root, said};
use gpufs_tests::{Scratch, skip};

/// The sources that ask nothing of a session, and name no stream but the standard error.
const SOURCES: [&str; 15] = [
    "string",
    "stdlib",
    "strtod",
    "heap",
    "time",
    "strptime",
    "tools",
    "environment",
    "names",
    "folders",
    "wide",
    "search",
    "inet",
    "walk",
    "users",
];

fn run(folder: &Scratch, command: &mut Command) -> Output {
    let output = command.current_dir(folder.dir()).output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    output
}

#[test]
fn functions_of_the_c_half_are_beside_the_c_librarys() {
    const NAME: &str = "functions_of_the_c_half_are_beside_the_c_librarys";
    let Some(compiler) = c_compilers().into_iter().next() else {
        return skip(NAME, "no C compiler");
    };
    if installed(&["ld", "nm", "objcopy"]).len() < 3 {
        return skip(NAME, "no binutils");
    }
    let folder = Scratch::new("libc");
    let include = root().join("include");
    let compile = |flags: &[&str], source: &str, output: &str| {
        let mut command = Command::new(compiler);
        command.args(["-O1", "-Wall", "-Wextra", "-Werror", "-c"]).args(flags).arg(root().join(source));
        run(&folder, command.arg("-o").arg(output));
    };
    let headers = [include.join("gpufs/libc"), include.clone()].map(|folder| folder.display().to_string());
    let flags = ["-std=c11", "-ffreestanding", "-fno-builtin", "-D_GNU_SOURCE"];
    // A clock of AMD GPUs.
    let clock = ["-D__builtin_readsteadycounter()=0"];
    let found = ["-isystem", headers[0].as_str(), "-isystem", headers[1].as_str()];
    let all = [&flags[..], &clock, &found].concat();
    let objects = SOURCES.map(|name| format!("{name}.o"));
    for (name, object) in SOURCES.iter().zip(&objects) {
        compile(&all, &format!("gpufs-libc/c/{name}.c"), object);
    }
    run(&folder, Command::new("ld").arg("-r").args(&objects).args(["-o", "whole.o"]));
    let listed = run(&folder, Command::new("nm").args(["--defined-only", "-g", "whole.o"]));
    let mut names = "gpufs_program_ ours_gpufs_program_\n".to_owned();
    for name in said(&listed).lines().filter_map(|line| line.split_whitespace().nth(2)) {
        names += &format!("{name} ours_{name}\n");
    }
    std::fs::write(folder.path("names"), names).expect("written");
    run(&folder, Command::new("objcopy").args(["--redefine-syms=names", "whole.o", "ours.o"]));
    compile(&["-std=gnu17", "-I", &headers[1]], "tests/c/libc/beside.c", "beside.o");
    compile(&["-std=gnu17"], "tests/c/libc/beside_files.c", "beside_files.o");
    let mut link = Command::new(compiler);
    link.args(["beside.o", "beside_files.o", "ours.o", "-o", "beside", "-L"])
        .arg(&*LIBRARY)
        .args(["-lgpufs", "-lm"]);
    run(&folder, link.arg(format!("-Wl,-rpath,{}", LIBRARY.display())));
    let mut beside = Command::new("timeout");
    let output = beside.args(["-s", "KILL", "100", "./beside"]).current_dir(folder.dir()).output();
    let output = output.expect("it starts");
    if output.status.code() == Some(77) {
        return skip(NAME, said(&output).trim());
    }
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(said(&output).trim(), "0 failures");
}
