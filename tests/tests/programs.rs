//! C programs whose own `main` runs on CPU lanes (`gpufs run --device cpu`), beside the same programs built by the machine's compiler: output
//! and exit status are equal. Wrong use of `gpufs`. The programs of docs/c-programs.md.
//!
//! `cargo xtask abi` builds the same programs for GPUs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use gpufs_tests::compilers::{self, root};
use gpufs_tests::{Scratch, documents, skip};

/// What `cargo xtask dist` makes for CPU lanes: headers, sources, `libgpufs` and `gpufs`, of this test's own profile.
static PREFIX: LazyLock<Scratch> = LazyLock::new(|| {
    let folder = compilers::build(&["gpufs-c", "gpufs"]);
    let prefix = Scratch::new("programs-prefix");
    copy_folder(&root().join("include"), &prefix.path("include"));
    copy_folder(&root().join("gpufs-libc/c"), &prefix.path("share/gpufs/libc"));
    for (name, place) in [("libgpufs.so", "lib/libgpufs.so"), ("gpufs", "bin/gpufs")] {
        let place = prefix.path(place);
        std::fs::create_dir_all(place.parent().expect("in the prefix")).expect("a folder");
        std::fs::copy(folder.join(name), place).expect("copied");
    }
    compilers::link_by_soname(&prefix.path("lib"));
    remove_at_exit();
    prefix
});

/// Nothing drops what is static, and this is 50 MB.
#[expect(unsafe_code, reason = "registers a function of this file")]
fn remove_at_exit() {
    extern "C" fn remove() {
        // What stays behind is only litter.
        let _ = std::fs::remove_dir_all(PREFIX.dir());
    }
    // SAFETY:
    // - a function that unwinds no further than itself, and is there until the end
    let refused = unsafe { libc::atexit(remove) };
    assert_eq!(refused, 0);
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let copied = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy_folder(&path, &copied);
        } else {
            std::fs::copy(&path, copied).expect("copied");
        }
    }
}

/// `gpufs` of the prefix, which ends within a minute.
fn gpufs() -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60"]).arg(PREFIX.path("bin/gpufs")).env_remove("GPUFS_PREFIX");
    command
}

/// Whether there is a C compiler; a line if not.
fn compiler(test: &str) -> bool {
    // Before this process starts any other: a child that inherits a file open for writing would make it "busy" for those that run it.
    LazyLock::force(&PREFIX);
    let found = !compilers::installed(&["cc"]).is_empty();
    if !found {
        skip(test, "no C compiler");
    }
    found
}

fn source(name: &str) -> PathBuf {
    root().join("tests/c/programs").join(name)
}

/// Runs with text on the standard input.
fn with_input(command: &mut Command, text: &str) -> Output {
    use std::io::Write as _;
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.expect("the program starts");
    // A program that reads nothing may have ended.
    let _ = child.stdin.take().expect("a pipe").write_all(text.as_bytes());
    child.wait_with_output().expect("the program ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Refused with 125 and a text that has these words.
fn refused(output: &Output, words: &[&str]) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    for word in words {
        assert!(said.contains(word), "{word} is missing in: {said}");
    }
}

#[test]
fn a_program_prints_what_it_prints_natively() {
    if !compiler("a_program_prints_what_it_prints_natively") {
        return;
    }
    let (native, lanes) = (Scratch::new("native"), Scratch::new("lanes"));
    let built = Command::new("cc")
        .arg("-O2")
        .arg(source("tour.c"))
        .arg("-o")
        .arg(native.path("tour"))
        .arg("-lm")
        .status();
    assert!(built.expect("cc runs").success());
    for arguments in [&["x", "two words"][..], &["early"]] {
        let input = "one\ntwo\nthree\n";
        let mut command = Command::new(native.path("tour"));
        command.args(arguments).env("GPUFS_TOUR", "word").current_dir(native.dir());
        let expected = with_input(&mut command, input);
        let mut command = gpufs();
        command.args(["run", "--device", "cpu"]).arg(source("tour.c")).arg("--").args(arguments);
        let got = with_input(command.env("GPUFS_TOUR", "word").current_dir(lanes.dir()), input);
        assert_eq!(text(&got.stdout), text(&expected.stdout), "{}", text(&got.stderr));
        assert!(text(&got.stdout).contains("3 lines\n"), "the input is read");
        assert_eq!(got.status.code(), expected.status.code());
        assert_eq!(text(&got.stderr), text(&expected.stderr));
        assert_eq!(lanes.read("made.txt"), b"kept\n");
    }
}

/// A program's standard of C, its warnings and its macros are for its own sources.
#[test]
fn programs_of_every_standard_are_built() {
    if !compiler("programs_of_every_standard_are_built") {
        return;
    }
    let folder = Scratch::new("standards");
    let old = "#include <stdio.h>\n#include <string.h>\nint main(void)\n{\n    char text[16];\n    int at;\n    strcpy(text, \"old\");\n    \
        for (at = 0; at < 2; ++at)\n        printf(\"%s %d\\n\", text, at);\n    return 3;\n}\n";
    std::fs::write(folder.path("old.c"), old).expect("written");
    for flags in [
        &["-ansi"][..],
        &["-std=gnu89", "-Wall", "-Wextra", "-Werror"],
        &["-std=c89", "-pedantic-errors"],
        &["-std=c99", "-pedantic-errors", "-fsanitize=undefined"],
        &["-std=gnu11", "-Dat=number", "-Dmain=main"],
        &["-std=c17", "-pthread", "-g"],
    ] {
        let mut command = gpufs();
        command.args(["run", "--device", "cpu"]).args(flags).arg(folder.path("old.c"));
        let got = command.output().expect("gpufs runs");
        assert_eq!(text(&got.stdout), "old 0\nold 1\n", "{flags:?}: {}", text(&got.stderr));
        assert_eq!(got.status.code(), Some(3), "{flags:?}");
        assert_eq!(text(&got.stderr), "", "{flags:?}");
    }
}

/// The C library's own `setjmp` and `getopt` work on a lane, and folders are walked by descriptor. (`cargo xtask abi` builds the same programs
/// for GPUs, where they are gpufs's.)
#[test]
fn jumps_options_and_folders_are_as_natively() {
    if !compiler("jumps_options_and_folders_are_as_natively") {
        return;
    }
    let programs = [
        ("jumps", &["x"][..]),
        ("options", &[]),
        ("folders", &[]),
        ("at", &[]),
        ("wide", &[]),
        ("streams", &[]),
        ("echo", &[]),
        ("here", &[]),
        ("tools", &[]),
    ];
    for (name, arguments) in programs {
        let native = Scratch::new(name);
        let file = format!("{name}.c");
        let built = Command::new("cc")
            .args(["-O2", "-w"])
            .arg(source(&file))
            .arg("-o")
            .arg(native.path(name))
            .status();
        assert!(built.expect("cc runs").success());
        let mut command = Command::new(native.path(name));
        let expected = command.args(arguments).current_dir(native.dir()).output().expect("it runs");
        let mut command = gpufs();
        command.args(["run", "--device", "cpu", "-w"]).arg(source(&file)).arg("--").args(arguments);
        let got = command.current_dir(native.dir()).output().expect("gpufs runs");
        assert_eq!(text(&got.stdout), text(&expected.stdout), "{}", text(&got.stderr));
        assert_eq!(got.status.code(), expected.status.code());
        assert!(text(&got.stdout).lines().count() > 10, "{name} prints");
    }
}

/// A compiler that makes a call of `puts` of one of `printf`, after it has made `puts` one for the calls that it had seen, printed another text.
#[test]
fn each_compiler_prints_each_text() {
    if !compiler("each_compiler_prints_each_text") {
        return;
    }
    let folder = Scratch::new("texts");
    let program = "#include <stdio.h>\nint main(void) { printf(\"first\\n\"); puts(\"second\"); printf(\"\\n\"); putchar('3');\n    \
        fprintf(stdout, \"%c\", 'c'); fprintf(stdout, \"fourth\\n\"); fputs(\"fifth\", stdout); printf(\"%s\\n\", \"sixth\"); return 0; }\n";
    std::fs::write(folder.path("texts.c"), program).expect("written");
    for name in compilers::c_compilers() {
        for level in ["-O0", "-O2"] {
            let mut command = gpufs();
            command.args(["run", "--device", "cpu", level]).arg(folder.path("texts.c")).env("CC", name);
            let got = command.output().expect("gpufs runs");
            assert_eq!(
                text(&got.stdout),
                "first\nsecond\n\n3cfourth\nfifthsixth\n",
                "{name} {level}: {}",
                text(&got.stderr)
            );
        }
    }
}

/// A name is gpufs's also where a source declares it by hand, and the program's own where it defines it: neither reaches the other's.
#[test]
fn names_are_gpufss_or_the_programs_own() {
    if !compiler("names_are_gpufss_or_the_programs_own") {
        return;
    }
    let folder = Scratch::new("names");
    let programs = [
        (&["own_names.c"][..], "-std=c99", "21\n"),
        (&["by_hand.c", "by_hand_more.c"], "-std=c11", ""),
        (&["by_hand.c", "by_hand_more.c"], "-std=gnu17", ""),
    ];
    for (sources, standard, input) in programs {
        let sources: Vec<_> = sources.iter().map(|name| source(name)).collect();
        let native = folder.path("native");
        let built = Command::new("cc").args([standard, "-w"]).args(&sources).arg("-o").arg(&native).status();
        assert!(built.expect("cc runs").success());
        let expected = with_input(Command::new(&native).current_dir(folder.dir()), input);
        assert!(text(&expected.stdout).lines().count() > 3, "the program prints");
        for name in compilers::c_compilers() {
            let mut command = gpufs();
            command.args(["run", "--device", "cpu", standard, "-w"]).args(&sources).env("CC", name);
            let got = with_input(command.current_dir(folder.dir()), input);
            assert_eq!(text(&got.stdout), text(&expected.stdout), "{name}: {}", text(&got.stderr));
            assert_eq!(text(&got.stderr), text(&expected.stderr), "{name}");
            assert_eq!(got.status.code(), expected.status.code(), "{name}");
        }
    }
}

/// A standard stream that the process was started without is none: no call waits, and nothing goes to what gpufs has opened itself.
#[test]
fn closed_standard_streams_stay_closed() {
    if !compiler("closed_standard_streams_stay_closed") {
        return;
    }
    let folder = Scratch::new("closed");
    let (native, lanes) = (folder.path("native"), folder.path("lanes"));
    let built = Command::new("cc").arg("-w").arg(source("closed.c")).arg("-o").arg(&native).status();
    assert!(built.expect("cc runs").success());
    let mut build = gpufs();
    build.args(["build", "--device", "cpu", "-w"]).arg(source("closed.c")).arg("-o").arg(&lanes);
    assert!(build.status().expect("gpufs runs").success());
    for closed in ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"] {
        let run = |program: &Path| {
            let line =
                format!("exec timeout -s KILL 30 {} </dev/null >out 2>err {closed}", program.display());
            let _ = Command::new("sh").args(["-c", &line]).current_dir(folder.dir()).status();
            (text(&folder.read("closed.txt")), text(&folder.read("out")))
        };
        let (expected, got) = (run(&native), run(&lanes));
        assert_eq!(got, expected, "{closed}");
    }
}

/// Whatever ends a program, what it printed before is there, and the status is what a shell shows.
#[test]
fn what_was_printed_survives_each_end() {
    if !compiler("what_was_printed_survives_each_end") {
        return;
    }
    let folder = Scratch::new("ends");
    let program = folder.path("ends");
    let mut build = gpufs();
    build.args(["build", "--device", "cpu"]).arg(source("ends.c")).arg("-o").arg(&program);
    let built = build.output().expect("gpufs runs");
    assert!(built.status.success(), "{}", text(&built.stderr));
    for (way, status) in [("r", 0), ("e", 255), ("q", 5), ("a", 134), ("s", 134), ("f", 139)] {
        let output = gpufs().arg("run").arg(&program).args(["--", way]).output().expect("gpufs runs");
        assert_eq!(output.status.code(), Some(status), "{way}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "printed before", "{way}");
        let told = text(&output.stderr).contains("Assertion `argc == 1' failed.");
        assert_eq!(told, way == "s", "{way}: {}", text(&output.stderr));
    }
}

#[test]
fn wrong_use_is_named() {
    let folder = Scratch::new("wrong");
    let write = |name: &str, text: &str| {
        let path = folder.path(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let missing = gpufs().args(["run", "nowhere.c"]).env("GPUFS_QUIET", "1").output().expect("gpufs runs");
    refused(&missing, &["nowhere.c: there is no such file"]);
    let missing = gpufs().args(["run", "nowhere.cubin"]).output().expect("gpufs runs");
    refused(&missing, &["nowhere.cubin: there is no such file"]);
    let script = write("script", "#!/bin/sh\n");
    refused(
        &gpufs().arg("run").arg(&script).output().expect("gpufs runs"),
        &["script is no program that 'gpufs build' made"],
    );
    let whole = write("whole.c", "int main(void) { return 0; }\n");
    let no_prefix = gpufs()
        .args(["build", "--device", "cpu"])
        .arg(&whole)
        .args(["-o", "x"])
        .env("GPUFS_PREFIX", folder.dir())
        .output()
        .expect("gpufs runs");
    refused(&no_prefix, &["GPUFS_PREFIX", "cargo xtask dist DIR"]);
    let no_clang = gpufs().arg("build").arg(&whole).args(["-o", "x.elf"]).output().expect("gpufs runs");
    refused(&no_clang, &["PROGRAM.cubin"]);
    let no_device = gpufs().arg("build").arg(&whole).args(["-o", "x.cubin"]).output().expect("gpufs runs");
    refused(&no_device, &["cargo xtask dist"]);
    let mut no_compiler = gpufs();
    no_compiler.args(["run", "--device", "cpu"]).arg(&whole).env("CC", "/nowhere/cc");
    refused(&no_compiler.output().expect("gpufs runs"), &["/nowhere/cc", "CC names"]);
    if !compiler("wrong_use_is_named") {
        return;
    }
    let undefined = write("undefined.c", "int nobody(void);\nint main(void) { return nobody(); }\n");
    let mut command = gpufs();
    command.args(["run", "--device", "cpu"]).arg(&undefined);
    refused(&command.output().expect("gpufs runs"), &["does not link: nobody is in none of its sources"]);
    let headless = write("headless.c", "int other(void) { return 0; }\n");
    let mut command = gpufs();
    command.args(["run", "--device", "cpu"]).arg(&headless);
    refused(&command.output().expect("gpufs runs"), &["none of its sources defines main"]);
    let broken = write("broken.c", "int main(void) { return x; }\n");
    let mut command = gpufs();
    command.args(["run", "--device", "cpu"]).arg(&broken);
    refused(&command.output().expect("gpufs runs"), &["broken.c", "undeclared"]);
}

/// The programs of the page, each by the command that the page names for machines without a GPU.
#[test]
fn programs_of_the_page() {
    if !compiler("programs_of_the_page") {
        return;
    }
    let samples = documents::samples("docs/c-programs.md");
    assert!(!samples.is_empty());
    for sample in samples {
        let folder = Scratch::new("sample");
        std::fs::write(folder.path("sample.c"), &sample.text).expect("written");
        let mut command = gpufs();
        command.args(["run", "--device", "cpu", "sample.c"]).current_dir(folder.dir());
        let output = command.output().expect("gpufs runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        sample.check(&folder);
    }
}

/// A project of CMake's, for CPU lanes.
#[test]
fn a_program_by_cmake() {
    if !compiler("a_program_by_cmake") {
        return;
    }
    if compilers::installed(&["cmake"]).is_empty() {
        return skip("a_program_by_cmake", "no cmake");
    }
    let module = PREFIX.path("lib/cmake/gpufs/gpufs-program.cmake");
    std::fs::create_dir_all(module.parent().expect("in the prefix")).expect("a folder");
    std::fs::copy(root().join("xtask/src/dist/gpufs-program.cmake"), &module).expect("copied");
    let project = Scratch::new("cmake");
    std::fs::copy(source("ends.c"), project.path("ends.c")).expect("copied");
    let list = format!(
        "cmake_minimum_required(VERSION 3.20)\nproject(ends LANGUAGES NONE)\ninclude(\"{}\")\n\
         gpufs_add_program(ends ends.c DEVICE cpu OPTIONS -DNDEBUG)\n",
        module.display()
    );
    std::fs::write(project.path("CMakeLists.txt"), list).expect("written");
    let built = project.path("built");
    for step in [
        Command::new("cmake").arg("-S").arg(project.dir()).arg("-B").arg(&built),
        Command::new("cmake").arg("--build").arg(&built),
    ] {
        let output = step.output().expect("cmake runs");
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    }
    // NDEBUG leaves the assertion out.
    let output =
        Command::new("timeout").arg("60").arg(built.join("ends")).arg("s").output().expect("it runs");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "printed before".to_owned()));
}
