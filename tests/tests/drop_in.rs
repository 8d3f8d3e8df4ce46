//! Sources that know nothing of gpufs, compiled under `gpufs/drop_in.h`: on CPU lanes in C and C++, and whether they compile for GPUs.

use std::path::Path;
use std::process::Command;

use gpufs_tests::compilers::{LIBRARY, c_compilers, installed, root, said};
use gpufs_tests::{Scratch, skip};

/// Runs a compiler in a folder, with the headers of gpufs to be found.
fn compile(name: &str, folder: &Scratch, options: &[&str]) {
    let include = root().join("include");
    let output = Command::new(name)
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1"])
        .args(options)
        .arg("-I")
        .arg(include)
        .current_dir(folder.dir())
        .output()
        .expect("the compiler runs");
    assert!(output.status.success(), "{name} {options:?}:\n{}", said(&output));
}

/// How a source finds the headers: by the folder with the C library's names, or by one header before its first line.
fn ways() -> [Vec<String>; 2] {
    let include = root().join("include/gpufs");
    [
        vec!["-I".to_owned(), include.join("drop_in").display().to_string()],
        vec!["-include".to_owned(), include.join("drop_in.h").display().to_string()],
    ]
}

/// Links objects with the library and runs the program in the folder. What it said.
fn run(folder: &Scratch, name: &str, objects: &[&str]) -> String {
    let linked = Command::new(name)
        .args(objects)
        .arg("-L")
        .arg(&*LIBRARY)
        .args(["-lgpufs", "-lpthread", "-o", "program"])
        .arg(format!("-Wl,-rpath,{}", LIBRARY.display()))
        .current_dir(folder.dir())
        .output()
        .expect("the compiler runs");
    assert!(linked.status.success(), "{}", said(&linked));
    let output = Command::new("timeout")
        .args(["-s", "KILL", "60", "./program"])
        .current_dir(folder.dir())
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{}", said(&output));
    said(&output)
}

/// Streams, `errno` and the session in use, from a plain source of C.
#[test]
fn a_plain_source_on_cpu_lanes() {
    let compilers = c_compilers();
    if compilers.is_empty() {
        skip("a_plain_source_on_cpu_lanes", "no C compiler");
    }
    let source = root().join("tests/c/drop_in/plain.c").display().to_string();
    let main = root().join("tests/c/drop_in/main.c").display().to_string();
    for name in compilers {
        for standard in ["-std=c99", "-std=gnu17"] {
            for way in ways() {
                let folder = Scratch::new("drop_in");
                let mut options = vec![standard, "-c", &source, "-o", "plain.o"];
                options.extend(way.iter().map(String::as_str));
                compile(name, &folder, &options);
                compile(name, &folder, &["-std=c11", "-c", &main, "-o", "main.o"]);
                let said = run(&folder, name, &["plain.o", "main.o"]);
                assert_eq!(said.matches("plain\n").count(), 9, "{said}");
                // Once, though two calls found none.
                assert_eq!(said.matches("no session in use").count(), 1, "{said}");
            }
        }
    }
}

/// Asynchronous operations, from a plain source of C; and that it compiles for GPUs.
#[test]
fn asynchronous_operations_on_cpu_lanes() {
    let source = root().join("tests/c/drop_in/aio.c").display().to_string();
    let main = root().join("tests/c/drop_in/main.c").display().to_string();
    let compilers = c_compilers();
    if compilers.is_empty() {
        skip("asynchronous_operations_on_cpu_lanes", "no C compiler");
    }
    for (name, way) in compilers.into_iter().flat_map(|name| ways().map(|way| (name, way))) {
        let folder = Scratch::new("drop_in_aio");
        let mut options = vec!["-std=gnu17", "-c", &source, "-o", "plain.o"];
        options.extend(way.iter().map(String::as_str));
        compile(name, &folder, &options);
        compile(name, &folder, &["-std=c11", "-c", &main, "-o", "main.o"]);
        run(&folder, name, &["plain.o", "main.o"]);
    }
    let Some(clang) = installed(&["clang", "clang-22"]).into_iter().next() else {
        return skip("asynchronous_operations_on_cpu_lanes", "no clang for GPUs");
    };
    let ([way, _], folder) = (ways(), Scratch::new("drop_in_aio"));
    // A C program on a GPU has no other C library.
    let libc = root().join("include/gpufs/libc").display().to_string();
    for target in
        [["--target=nvptx64-nvidia-cuda", "-march=sm_90"], ["--target=amdgcn-amd-amdhsa", "-mcpu=gfx90a"]]
    {
        let mut options = vec!["-nogpulib", "-ffreestanding", "-O2", "-S", "-o", "aio.s", &way[0], &way[1]];
        options.extend(["-I", &libc]);
        options.extend(target);
        if target[0].contains("nvptx") {
            options.extend(["-Xclang", "-target-feature", "-Xclang", "+ptx80"]);
        }
        options.push(&source);
        compile(clang, &folder, &options);
        let text = String::from_utf8(folder.read("aio.s")).expect("text");
        assert!(text.contains("gpufs_raw_lio_listio") && text.contains("gpufs_raw_aio_return"), "{target:?}");
    }
}

/// The macros with a value that a header defines for GPUs, but for its own.
fn constants(header: &str) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(root().join("include/gpufs/standard").join(header)).expect("a header");
    let defined = text.lines().filter_map(|line| line.strip_prefix("#define ")?.split_once(' '));
    defined
        .filter(|(name, value)| {
            !name.contains('(') && !name.starts_with("GPUFS_") && !value.starts_with(['{', 'g'])
        })
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// What the headers of sockets define where there is no C library is what this machine's has.
#[test]
fn constants_of_sockets_are_the_systems() {
    let Some(compiler) = c_compilers().into_iter().next() else {
        return skip("constants_of_sockets_are_the_systems", "no C compiler");
    };
    let headers = ["sys/socket_constants.h", "netinet/in.h", "netinet/tcp.h", "poll.h"];
    let mut source =
        "#define _GNU_SOURCE\n#include <netinet/in.h>\n#include <netinet/tcp.h>\n#include <poll.h>\n"
            .to_owned();
    let mut count = 0;
    for (name, value) in headers.into_iter().flat_map(constants) {
        // An older C library lacks some.
        source += &format!(
            "enum {{ ours_{name} = (int)({value}) }};\n#if defined({name}) || defined(SO_RCVMARK)\n\
             _Static_assert(ours_{name} == (int)({name}), \"{name}\");\n#endif\n"
        );
        count += 1;
    }
    assert!(count > 120, "{count} constants");
    let folder = Scratch::new("constants");
    std::fs::write(folder.path("constants.c"), &source).expect("written");
    compile(compiler, &folder, &["-std=gnu17", "-c", "constants.c", "-o", "constants.o"]);
}

/// A source with sockets has one layout of their structures with the C library's headers, on CPU lanes, in C and C++, and for GPUs.
#[test]
fn structures_of_sockets_have_one_layout() {
    let source = root().join("tests/c/drop_in/sockets.c").display().to_string();
    let folder = Scratch::new("socket-layout");
    let compilers = c_compilers();
    if compilers.is_empty() {
        skip("structures_of_sockets_have_one_layout", "no C compiler");
    }
    for name in compilers {
        compile(name, &folder, &["-std=gnu17", "-c", &source, "-o", "native.o"]);
        for (standard, way) in
            ["-std=c11", "-std=gnu17"].into_iter().flat_map(|standard| ways().map(|way| (standard, way)))
        {
            let mut options = vec![
                standard,
                "-D_POSIX_C_SOURCE=200809L",
                "-D_DEFAULT_SOURCE",
                "-c",
                &source,
                "-o",
                "lanes.o",
            ];
            options.extend(way.iter().map(String::as_str));
            compile(name, &folder, &options);
            let object = folder.read("lanes.o");
            assert!(object.windows(14).any(|bytes| bytes == b"gpufs_raw_bind"), "{name} {way:?}");
        }
    }
    let Some(clang) = installed(&["clang", "clang-22"]).into_iter().next() else {
        return skip("structures_of_sockets_have_one_layout", "no clang for GPUs");
    };
    let [way, _] = ways();
    let libc = root().join("include/gpufs/libc").display().to_string();
    for target in
        [["--target=nvptx64-nvidia-cuda", "-march=sm_90"], ["--target=amdgcn-amd-amdhsa", "-mcpu=gfx90a"]]
    {
        let mut options =
            vec!["-nogpulib", "-ffreestanding", "-nostdlibinc", "-O2", "-S", "-o", "gpu.s", &way[0], &way[1]];
        options.extend(["-I", &libc]);
        options.extend(target);
        if target[0].contains("nvptx") {
            options.extend(["-Xclang", "-target-feature", "-Xclang", "+ptx80"]);
        }
        options.push(&source);
        compile(clang, &folder, &options);
        let text = String::from_utf8(folder.read("gpu.s")).expect("text");
        assert!(text.contains("gpufs_raw_bind") && text.contains("gpufs_raw_listen"), "{target:?}");
    }
}

/// Formats, and names that only glibc has, from a program with a `main`: also where a source has an old standard.
#[test]
fn formats_on_cpu_lanes() {
    let compilers = c_compilers();
    if compilers.is_empty() {
        skip("formats_on_cpu_lanes", "no C compiler");
    }
    let source = root().join("tests/c/drop_in/formats.c").display().to_string();
    let driver = root().join("tests/conformance/driver.c").display().to_string();
    let [way, _] = ways();
    for name in compilers {
        for standard in ["-std=gnu89", "-std=gnu17"] {
            let folder = Scratch::new("formats");
            let mut options =
                vec![standard, "-Wno-format", "-Wno-long-long", "-Wno-pedantic", "-fno-builtin"];
            options.extend(["-Dmain=conformance_main", "-Dexit=conformance_exit", &way[0], &way[1]]);
            options.extend(["-c", &source, "-o", "formats.o"]);
            compile(name, &folder, &options);
            compile(name, &folder, &["-std=c11", "-c", &driver, "-o", "driver.o"]);
            assert_eq!(run(&folder, name, &["formats.o", "driver.o"]), "a  |  2.2\n");
        }
    }
}

/// The example's plain source: each thread writes its table, and the standard output has a line of each.
#[test]
fn the_example_on_cpu_lanes() {
    let Some(name) = c_compilers().into_iter().next() else {
        return skip("the_example_on_cpu_lanes", "no C compiler");
    };
    let example = root().join("examples/drop_in");
    let source = |file: &str| example.join(file).display().to_string();
    let [way, _] = ways();
    let folder = Scratch::new("tables");
    compile(name, &folder, &[&way[0], &way[1], "-c", &source("table.c"), "-o", "table.o"]);
    compile(name, &folder, &["-c", &source("lanes.c"), "-o", "lanes.o"]);
    let said = run(&folder, name, &["lanes.o", "table.o"]);
    let mut lines: Vec<_> = said.lines().map(ToOwned::to_owned).collect();
    let mut expected: Vec<_> = (1..=64).map(|number| format!("table-{number}.txt is written")).collect();
    lines.sort_unstable();
    expected.sort_unstable();
    assert_eq!(lines, expected);
    for number in 1..=64 {
        let text = String::from_utf8(folder.read(&format!("table-{number}.txt"))).expect("text");
        let rows = (1..=10).map(|factor| format!("{number} x {factor} = {}\n", number * factor));
        assert_eq!(text, rows.collect::<String>());
    }
}

/// The example's plain source, for each GPU by clang, in C and C++; and its kernels, by nvcc and by clang for HIP.
#[test]
fn the_example_compiles_for_gpus() {
    let example = root().join("examples/drop_in");
    let source = |file: &str| example.join(file).display().to_string();
    let [way, _] = ways();
    let folder = Scratch::new("gpu-tables");
    let Some(clang) = installed(&["clang", "clang-22"]).into_iter().next() else {
        return skip("the_example_compiles_for_gpus", "no clang");
    };
    let targets: [&[&str]; 2] = [
        &["--target=nvptx64-nvidia-cuda", "-march=sm_90", "-Xclang", "-target-feature", "-Xclang", "+ptx80"],
        &["--target=amdgcn-amd-amdhsa", "-mcpu=gfx90a"],
    ];
    for target in targets {
        for language in [["-x", "c"], ["-x", "c++"]] {
            let mut options =
                vec!["-nogpulib", "-ffreestanding", "-O2", "-S", "-o", "table.s", &way[0], &way[1]];
            options.extend(target);
            options.extend(language);
            let source = source("table.c");
            options.push(&source);
            compile(clang, &folder, &options);
            let text = String::from_utf8(folder.read("table.s")).expect("text");
            assert!(
                text.contains("gpufs_raw_fopen") && text.contains("gpufs_raw_used_session"),
                "{target:?}"
            );
        }
    }
    if Path::new("/usr/include/hip/hip_runtime.h").exists() {
        let source = source("gpu.hip");
        let mut options =
            vec!["-x", "hip", "--offload-arch=gfx90a", "-nogpulib", "-D__AMDGCN_WAVEFRONT_SIZE=64"];
        options.extend([
            "-D__HIP_PLATFORM_AMD__",
            "-fsyntax-only",
            "-Wno-pedantic",
            &way[0],
            &way[1],
            &source,
        ]);
        compile(clang, &folder, &options);
    } else {
        skip("the_example_compiles_for_gpus", "no HIP headers (Debian: libamdhip64-dev)");
    }
    let nvcc = std::env::var("NVCC").unwrap_or_else(|_| "nvcc".to_owned());
    if Command::new(&nvcc).arg("--version").output().is_ok_and(|output| output.status.success()) {
        for file in ["examples/drop_in/gpu.cu", "tests/c/drop_in/split.cu"] {
            let output = Command::new(&nvcc)
                .args(["-dc", "-arch=sm_90", "-Werror=all-warnings", "-o", "split.o"])
                .args(&way)
                .arg("-I")
                .arg(root().join("include"))
                .arg(root().join(file))
                .current_dir(folder.dir())
                .output()
                .expect("nvcc runs");
            assert!(output.status.success(), "{file}: {}", said(&output));
        }
    } else {
        skip("the_example_compiles_for_gpus", "no nvcc (NVCC names it)");
    }
}
