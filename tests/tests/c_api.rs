//! The C and C++ interface: programs against `libgpufs` on CPU lanes, built as their authors would; the programs of the documentation; headers
//! that compile without a word; formats that must not compile.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpufs_core::trace::{Encoded, Event, Kind};
use gpufs_tests::compilers::{LIBRARY, SONAME, c_compilers, cpp_compilers, installed, root, said};
use gpufs_tests::documents::{self, Sample};
use gpufs_tests::{Scratch, perfetto, skip};

/// A compiler with the flags of these tests.
fn compiler(name: &str, standard: &str) -> Command {
    let mut command = Command::new(name);
    command
        .arg(format!("-std={standard}"))
        .args([
            "-D_GNU_SOURCE",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-Wno-format-security",
            "-O1",
            "-I",
        ])
        .arg(root().join("include"));
    command
}

/// Compiles a program against the library, and runs it in a folder of its own.
fn runs(name: &str, standard: &str, source: &Path, shared: bool) -> Scratch {
    let scratch = Scratch::new("c");
    let program = scratch.path("program");
    let mut command = compiler(name, standard);
    command.arg(source).arg("-o").arg(&program);
    if shared {
        command.arg("-L").arg(&*LIBRARY).arg("-lgpufs").arg(format!("-Wl,-rpath,{}", LIBRARY.display()));
    } else {
        command.arg(LIBRARY.join("libgpufs.a")).arg("-lm");
    }
    let output = command.args(["-lpthread", "-ldl"]).output().expect("the compiler runs");
    assert!(output.status.success(), "{name} -std={standard} {}:\n{}", source.display(), said(&output));
    // Pairs of calls take three minutes of an idle machine without optimization, and more of a busy one.
    let output = Command::new("timeout")
        .args([OsStr::new("900"), program.as_os_str()])
        .current_dir(scratch.dir())
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{name} -std={standard} {}:\n{}", source.display(), said(&output));
    scratch
}

#[test]
fn every_call_from_c() {
    let source = root().join("tests/c/calls.c");
    let compilers = c_compilers();
    if compilers.is_empty() {
        skip("every_call_from_c", "no C compiler");
    }
    for (index, name) in compilers.into_iter().enumerate() {
        // Both kinds of library.
        runs(name, "c11", &source, index % 2 == 0);
    }
}

#[test]
fn paths_and_metadata_from_c() {
    let Some(name) = c_compilers().pop() else {
        return skip("paths_and_metadata_from_c", "no C compiler");
    };
    runs(name, "c11", &root().join("tests/c/paths.c"), true);
}

/// The printf family beside the system's, as macros where C has them, as functions, and with lists of arguments.
#[test]
fn printing_from_c() {
    let source = root().join("tests/c/printing.c");
    let compilers = c_compilers();
    if compilers.is_empty() {
        skip("printing_from_c", "no C compiler");
    }
    for (index, name) in compilers.into_iter().enumerate() {
        for standard in ["c99", "c11"] {
            runs(name, standard, &source, index % 2 == 0);
        }
    }
    for name in cpp_compilers() {
        runs(name, "c++20", &root().join("tests/c/printing.cpp"), true);
    }
}

/// The calls that [`every_pair_of_calls_in_c`] makes are all that the library exports for kernels.
#[test]
fn pairs_of_calls_leave_none_out() {
    let pairs = std::fs::read_to_string(root().join("tests/c/pairs.c")).expect("the program is there");
    for part in [
        "aio",
        "aio_chain",
        "aio_list",
        "aio_socket",
        "file",
        "memory",
        "message",
        "pipe",
        "service",
        "socket",
        "stdio",
        "print",
        "scan",
        "paths",
        "stat",
        "trace",
    ] {
        let source = std::fs::read_to_string(root().join(format!("gpufs-device-c/src/{part}.rs")));
        let source = source.expect("the calls are there");
        for exported in source.split(" fn gpufs_raw_").skip(1) {
            let name = exported.split('(').next().expect("a name");
            // They look up a number or a text, and ask nobody.
            let looked_up = matches!(name, "standard_stream" | "argument_types" | "strerror");
            assert!(looked_up || pairs.contains(&format!("    CALL({name}, ")), "{name}");
        }
    }
}

/// The calls that the device library exports are those of `raw.h`, and no other header declares one: those have users' calls.
#[test]
fn raw_calls_are_declared_in_one_header() {
    let read = |path: PathBuf| std::fs::read_to_string(path).expect("text");
    let names = |text: &str, before: &str| {
        let names = text.split(before).skip(1).map(|rest| rest.split('(').next().unwrap_or("").to_owned());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    };
    let sources: String = files("gpufs-device-c/src", "rs").into_iter().map(read).collect();
    let exported = names(&sources, " fn gpufs_raw_");
    assert!(!exported.is_empty());
    for header in files("include/gpufs", "h") {
        let declared: Vec<_> = read(header.clone())
            .lines()
            .filter(|line| line.starts_with("GPUFS_BOTH "))
            .flat_map(|line| names(&line.replace('*', " "), " gpufs_raw_"))
            .collect();
        if header.ends_with("raw.h") {
            let mut declared = declared;
            declared.sort();
            assert_eq!(declared, exported);
        } else {
            assert!(declared.is_empty(), "{}: {declared:?}", header.display());
        }
    }
}

/// The page names each function that a header defines for users.
#[test]
fn each_call_is_in_the_table_of_the_page() {
    let page = std::fs::read_to_string(root().join("include/README.md")).expect("the page");
    let table =
        page.split("## The calls").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("a table");
    let mut missing = Vec::new();
    for header in files("include/gpufs", "h") {
        if header.ends_with("raw.h") {
            continue;
        }
        let text = std::fs::read_to_string(&header).expect("text");
        // A definition or a declaration begins a line, with the name behind `GPUFS_…` or alone; a name with `_` at its end is a helper.
        let names = text
            .lines()
            .filter(|line| line.starts_with("gpufs_") || line.starts_with("GPUFS_"))
            .filter_map(|line| match line.split_once(" gpufs_") {
                Some((_, name)) => Some(name),
                None => line.strip_prefix("gpufs_"),
            });
        let names = names.filter_map(|rest| rest.split_once('(')).map(|(name, _)| name.to_owned());
        let is_named = |name: &str| name.starts_with("host_") || table.contains(&format!("`{name}`"));
        let is_users = |name: &String| {
            !name.ends_with('_')
                && !name.starts_with("raw_")
                && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
        };
        missing.extend(names.filter(is_users).filter(|name| !is_named(name)));
    }
    assert!(missing.is_empty(), "include/README.md does not name {missing:?}");
    assert!(table.matches('`').count() > 300, "the table is there");
}

#[test]
fn every_pair_of_calls_in_c() {
    let source = root().join("tests/c/pairs.c");
    match c_compilers().first() {
        Some(name) => drop(runs(name, "c11", &source, true)),
        None => skip("every_pair_of_calls_in_c", "no C compiler"),
    }
}

#[test]
fn traces_from_c() {
    let (c, cpp) = (c_compilers(), cpp_compilers());
    if c.is_empty() || cpp.is_empty() {
        skip("traces_from_c", "not a compiler for each language");
    }
    let programs = c.into_iter().map(|name| (name, "c11", "tests/c/traces.c", 1));
    for (name, standard, source, spans) in
        programs.chain(cpp.into_iter().map(|name| (name, "c++17", "tests/c/traces.cpp", 2)))
    {
        let scratch = runs(name, standard, &root().join(source), true);
        if standard == "c11" {
            headers_packets(&std::fs::read(scratch.path("packets")).expect("the packets"));
        }
        if let Err(reason) = perfetto::reader() {
            skip("traces_from_c", reason);
            continue;
        }
        let read = perfetto::read(&scratch.path("run.pftrace")).expect("a trace");
        assert_eq!(read.errors, Vec::<String>::new());
        assert_eq!((read.count("instant", "moment"), read.count("counter", "threads")), (1000, 1000));
        assert_eq!(
            (read.sum("moment", "thread"), read.sum("moment", "minus"), read.sum("moment", "half")),
            (499_500.0, -499_500.0, 249_750.0)
        );
        assert!(read.count("begin", "work") >= spans * 40, "{read:?}");
        assert_eq!(read.count("begin", "work"), read.count("end", ""));
        let read = perfetto::read(&scratch.path("recorded.pftrace")).expect("a trace");
        let [begun, ended, moments, counts] =
            [("begin", "step"), ("end", ""), ("instant", "moment"), ("counter", "threads")]
                .map(|(kind, name)| read.count(kind, name));
        // The lowest thread of each of the forty warps records, and of those that came to the trace apart another one.
        let recorders = moments / 100;
        assert!(recorders >= 40 && (moments, counts) == (100 * recorders, moments), "{read:?}");
        let lowest = (0..10).flat_map(|block| [0, 32, 64, 96].map(|lane| f64::from(100 * block + lane)));
        assert!(read.sum("moment", "thread") >= 100.0 * lowest.sum::<f64>(), "{read:?}");
        // A span before the recorder and one after it; C++'s second recorder has an end of a span that nobody began.
        let without_begin = if standard == "c11" { 0 } else { recorders };
        assert!(begun >= moments + 2 * 40 && ended == begun + without_begin, "{read:?}");
        if standard == "c11" {
            let session = perfetto::read(&scratch.path("session.pftrace")).expect("a trace");
            assert_eq!(session.errors, Vec::<String>::new());
            let begun = ["open", "launch", "close"].map(|span| session.count("begin", span));
            assert_eq!(begun, [1, 4, 1], "{session:?}");
        }
    }
}

/// What `packets` of `traces.c` wrote, word by word.
fn headers_packets(written: &[u8]) {
    let mut drawn = 1_u64;
    let mut made = Vec::new();
    for count in 0..3000 {
        let [time, sequence, name] = [(); 3].map(|()| {
            drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            drawn >> (drawn >> 58)
        });
        let number = |of: u64| of as u32 & 0x0fff_ffff;
        let kind = [Kind::Begin, Kind::End, Kind::Instant][count % 3];
        let name = if kind == Kind::End { 0 } else { number(name) };
        let event = Event { kind, name, track: None, value_names: &[], values: &[] };
        let packet = Encoded::new(number(sequence), time & 0x1_ffff_ffff_ffff, event);
        packet.each_word(|_, word| made.extend(word.to_le_bytes()));
    }
    assert_eq!(written, made);
}

#[test]
fn services_from_c() {
    match c_compilers().first() {
        Some(name) => drop(runs(name, "gnu11", &root().join("tests/c/services.c"), true)),
        None => skip("services_from_c", "no C compiler"),
    }
}

#[test]
fn sockets_from_c() {
    match c_compilers().first() {
        Some(name) => drop(runs(name, "gnu11", &root().join("tests/c/sockets.c"), true)),
        None => skip("sockets_from_c", "no C compiler"),
    }
}

#[test]
fn pipes_from_c() {
    match c_compilers().first() {
        Some(name) => drop(runs(name, "gnu11", &root().join("tests/c/pipes.c"), true)),
        None => skip("pipes_from_c", "no C compiler"),
    }
}

/// Beside the system's `struct aiocb`, and with wrong use of every kind.
#[test]
fn asynchronous_operations_from_c() {
    match c_compilers().first() {
        Some(name) => drop(runs(name, "gnu11", &root().join("tests/c/aio.c"), true)),
        None => skip("asynchronous_operations_from_c", "no C compiler"),
    }
    for (name, standard) in cpp_compilers().into_iter().zip(["c++14", "c++20"]) {
        runs(name, standard, &root().join("tests/c/aio.cpp"), true);
    }
}

/// Every call of a mapped file's, and each wrong use; in C++ through its classes.
#[test]
fn files_as_arrays_from_c() {
    match c_compilers().first() {
        Some(name) => drop(runs(name, "gnu11", &root().join("tests/c/views.c"), true)),
        None => skip("files_as_arrays_from_c", "no C compiler"),
    }
    for (name, standard) in cpp_compilers().into_iter().zip(["c++14", "c++20"]) {
        runs(name, standard, &root().join("tests/c/views.cpp"), true);
    }
}

/// Beside the C library's own in random sequences, too. `GPUFS_SEED` says where those begin.
#[test]
fn streams_on_memory_from_c() {
    match c_compilers().first() {
        Some(name) => drop(runs(name, "gnu11", &root().join("tests/c/memory_streams.c"), true)),
        None => skip("streams_on_memory_from_c", "no C compiler"),
    }
}

/// As many streams as a session has by default, all open and written at once.
#[test]
fn as_many_streams_as_the_session_has() {
    let Some(name) = c_compilers().into_iter().next() else {
        return skip("as_many_streams_as_the_session_has", "no C compiler");
    };
    runs(name, "c11", &root().join("tests/c/many_streams.c"), true);
}

#[test]
fn bulk_transfers_from_c() {
    match c_compilers().first() {
        Some(name) => drop(runs(name, "c11", &root().join("tests/c/transfers.c"), true)),
        None => skip("bulk_transfers_from_c", "no C compiler"),
    }
}

#[test]
fn a_session_and_its_process_from_c() {
    let source = root().join("tests/c/process.c");
    let compilers = c_compilers();
    if compilers.is_empty() {
        skip("a_session_and_its_process_from_c", "no C compiler");
    }
    // Both kinds of library.
    for shared in [true, false] {
        if let Some(name) = compilers.first() {
            runs(name, "c11", &source, shared);
        }
    }
}

#[test]
fn calls_of_the_host_have_the_deadline() {
    let source = root().join("tests/c/host_deadline.c");
    match c_compilers().first() {
        Some(name) => drop(runs(name, "c11", &source, true)),
        None => skip("calls_of_the_host_have_the_deadline", "no C compiler"),
    }
}

/// What `cargo xtask dist` makes a prefix of, with this profile's library.
fn make_prefix(prefix: &Path) {
    let copy = |from: &Path, to: &str| {
        let to = prefix.join(to);
        std::fs::create_dir_all(to.parent().expect("in the prefix")).expect("a folder");
        std::fs::copy(from, to).expect("copied");
    };
    for header in files("include/gpufs", "h") {
        let name = header.file_name().expect("a name").display();
        copy(&header, &format!("include/gpufs/{name}"));
    }
    copy(&LIBRARY.join("libgpufs.a"), "lib/libgpufs.a");
    let whole = concat!("libgpufs.so.", env!("CARGO_PKG_VERSION"));
    copy(&LIBRARY.join("libgpufs.so"), &format!("lib/{whole}"));
    for (name, target) in [(SONAME, whole), ("libgpufs.so", SONAME)] {
        std::os::unix::fs::symlink(target, prefix.join("lib").join(name)).expect("linked");
    }
    for (package, folder) in [
        ("gpufs.pc", "lib/pkgconfig"),
        ("gpufs-config.cmake", "lib/cmake/gpufs"),
        ("gpufs-config-version.cmake", "lib/cmake/gpufs"),
        ("gpufs-program.cmake", "lib/cmake/gpufs"),
    ] {
        let text = std::fs::read_to_string(root().join("xtask/src/dist").join(package)).expect("the package");
        std::fs::create_dir_all(prefix.join(folder)).expect("a folder");
        let text = text.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
        std::fs::write(prefix.join(folder).join(package), text).expect("written");
    }
}

/// The packages for CMake and pkg-config say the version. CMake finds it where a program asks for it, and no other minor version; what it
/// finds builds and runs.
#[test]
fn packages_know_the_version() {
    let prefix = Scratch::new("prefix");
    make_prefix(prefix.dir());
    let version = env!("CARGO_PKG_VERSION");
    if installed(&["pkg-config"]).is_empty() {
        skip("packages_know_the_version", "no pkg-config");
    } else {
        let output = Command::new("pkg-config")
            .args(["--modversion", "gpufs"])
            .env("PKG_CONFIG_PATH", prefix.path("lib/pkgconfig"))
            .output()
            .expect("pkg-config runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), version, "{}", said(&output));
    }
    if installed(&["cmake"]).is_empty() {
        return skip("packages_know_the_version", "no cmake");
    }
    let sample = samples("c").into_iter().find(|sample| sample.page == "include/README.md").expect("hello.c");
    let project = Scratch::new("project");
    std::fs::write(project.path("hello.c"), &sample.text).expect("written");
    let list = "cmake_minimum_required(VERSION 3.18)\nproject(hello LANGUAGES C)\n\
                find_package(gpufs ${WANTED} REQUIRED)\nmessage(STATUS \"found gpufs ${gpufs_VERSION}.\")\n\
                add_executable(hello hello.c)\ntarget_link_libraries(hello PRIVATE gpufs::host)\n";
    std::fs::write(project.path("CMakeLists.txt"), list).expect("written");
    let mut parts = version.split('.').map(|part| part.parse::<u32>().expect("a number"));
    let (major, minor) = (parts.next().expect("major"), parts.next().expect("minor"));
    let built = Scratch::new("built");
    let configure = |wanted: &str| {
        Command::new("cmake")
            .arg("--fresh")
            .arg(format!("-DWANTED={wanted}"))
            .arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.dir().display()))
            .args(["-S".as_ref(), project.dir(), "-B".as_ref(), built.dir()])
            .output()
            .expect("cmake runs")
    };
    for wrong in [format!("{major}.{}", minor + 1), format!("{}", major + 1), format!("{version}.1")] {
        let output = configure(&wrong);
        assert!(!output.status.success(), "gpufs {wrong} was found:\n{}", said(&output));
        assert!(said(&output).contains(&format!("version: {version}")), "{wrong}:\n{}", said(&output));
    }
    for right in [format!("{version};EXACT"), format!("{major}.{minor}")] {
        let output = configure(&right);
        assert!(output.status.success(), "gpufs {right} was not found:\n{}", said(&output));
        assert!(said(&output).contains(&format!("found gpufs {version}.")), "{}", said(&output));
    }
    let output = Command::new("cmake").arg("--build").arg(built.dir()).output().expect("cmake runs");
    assert!(output.status.success(), "{}", said(&output));
    let folder = Scratch::new("runs");
    let mut program = Command::new("timeout");
    program.arg("60").arg(built.path("hello")).current_dir(folder.dir());
    let output = program.output().expect("the program runs");
    assert!(output.status.success(), "{}", said(&output));
    sample.check(&folder);
}

/// Each command line of the page, to the letter, makes a program that runs in a folder of its own.
#[test]
fn linked_by_hand_as_documented() {
    let page = std::fs::read_to_string(root().join("include/README.md")).expect("the page");
    let commands: Vec<_> = page
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("cc ") && line.contains("hello.c"))
        .collect();
    assert!(commands.len() >= 3, "shared, by pkg-config, static: {commands:?}");
    let sample = samples("c").into_iter().find(|sample| sample.page == "include/README.md").expect("hello.c");
    let (built, prefix) = (Scratch::new("by-hand"), Scratch::new("prefix"));
    make_prefix(prefix.dir());
    std::fs::write(built.path("hello.c"), &sample.text).expect("written");
    for command in commands {
        if installed(&["cc"]).is_empty()
            || (command.contains("pkg-config") && installed(&["pkg-config"]).is_empty())
        {
            skip("linked_by_hand_as_documented", command);
            continue;
        }
        let command = command.replace("DIR", &prefix.dir().display().to_string());
        let output =
            Command::new("sh").args(["-c", &command]).current_dir(built.dir()).output().expect("sh runs");
        assert!(output.status.success(), "{command}:\n{}", said(&output));
        let folder = Scratch::new("runs");
        let output = Command::new("timeout")
            .arg("60")
            .arg(built.path("hello"))
            .env_remove("LD_LIBRARY_PATH")
            .current_dir(folder.dir())
            .output()
            .expect("the program runs");
        assert!(output.status.success(), "{command}:\n{}", said(&output));
        sample.check(&folder);
        std::fs::remove_file(built.path("hello")).expect("made anew by each");
    }
}

/// One stream for all threads of a grid that open a file.
#[test]
fn a_shared_open() {
    let Some(name) = c_compilers().into_iter().next() else {
        return skip("a_shared_open", "no C compiler");
    };
    runs(name, "c11", &root().join("tests/c/shared_open.c"), true);
}

#[test]
fn every_standard_name_in_cpp() {
    let source = root().join("tests/c/overloads.cpp");
    let compilers = cpp_compilers();
    if compilers.is_empty() {
        skip("every_standard_name_in_cpp", "no C++ compiler");
    }
    for name in compilers {
        for standard in ["c++14", "c++17", "c++20"] {
            runs(name, standard, &source, true);
        }
    }
}

/// The samples of all pages in these languages, each as a file of this extension, and what it prints.
fn samples(language: &str) -> Vec<Sample> {
    let mut found: Vec<_> = documents::PAGES.iter().flat_map(|page| documents::samples(page)).collect();
    found.retain(|sample| sample.language == language);
    found
}

#[test]
fn programs_of_the_documentation() {
    for (language, compilers, standard) in [("c", c_compilers(), "c11"), ("cpp", cpp_compilers(), "c++17")] {
        let samples = samples(language);
        assert!(!samples.is_empty(), "{language}: no samples");
        for sample in samples {
            let sources = Scratch::new("page");
            let source = sources.path(&format!("sample.{language}"));
            std::fs::write(&source, &sample.text).expect("written");
            let Some(name) = compilers.first() else {
                skip("programs_of_the_documentation", format!("no compiler for {language}"));
                continue;
            };
            sample.check(&runs(name, standard, &source, true));
        }
    }
}

/// Each header alone, first, in each language: it includes what it needs and says nothing.
#[test]
fn headers_stand_alone() {
    let scratch = Scratch::new("headers");
    let headers: Vec<_> = files("include/gpufs", "h")
        .into_iter()
        .map(|header| header.file_name().expect("a name").display().to_string())
        .collect();
    let languages = [
        (c_compilers(), "c", &["c99", "c11"][..]),
        (cpp_compilers(), "cpp", &["c++14", "c++17", "c++20"][..]),
    ];
    for (compilers, extension, standards) in languages {
        for header in &headers {
            let source = scratch.path(&format!("alone.{extension}"));
            std::fs::write(&source, format!("#include <gpufs/{header}>\nint gpufs_alone;\n"))
                .expect("written");
            for name in &compilers {
                for standard in standards {
                    let output =
                        compiler(name, standard).arg("-fsyntax-only").arg(&source).output().expect("runs");
                    assert!(output.status.success(), "{name} {standard} {header}:\n{}", said(&output));
                }
            }
        }
    }
}

/// An older C++ is told in one line what to do, and nothing else, whichever header comes first.
#[test]
fn an_older_cpp_is_told_which_it_takes() {
    let scratch = Scratch::new("older");
    let source = scratch.path("older.cpp");
    for header in files("include/gpufs", "h") {
        let header = header.file_name().expect("a name").to_string_lossy();
        // What types.h has where there is no C library.
        if header == "runtime_compiled.h" {
            continue;
        }
        std::fs::write(&source, format!("#include <gpufs/{header}>\n")).expect("written");
        for (name, standard) in cpp_compilers().iter().flat_map(|name| [(name, "c++98"), (name, "c++11")]) {
            let mut command = Command::new(name);
            command
                .arg(format!("-std={standard}"))
                .arg("-fsyntax-only")
                .arg("-I")
                .arg(root().join("include"));
            let output = command.arg(&source).output().expect("the compiler runs");
            let said = said(&output);
            assert!(!output.status.success(), "{name} {standard} {header}");
            let errors: Vec<&str> = said.lines().filter(|line| line.contains("error:")).collect();
            assert!(
                errors.len() == 2 && errors[0].contains("compile with -std=c++14"),
                "{name} {standard} {header}:\n{said}"
            );
        }
    }
}

/// A header whose layout is not the one that it asserts does not compile, in any language.
#[test]
fn other_layouts_do_not_compile() {
    let headers = Scratch::new("layouts");
    std::fs::create_dir(headers.path("gpufs")).expect("a folder");
    for header in files("include/gpufs", "h") {
        std::fs::copy(&header, headers.path("gpufs").join(header.file_name().expect("a name")))
            .expect("copied");
    }
    let host = headers.path("gpufs/host.h");
    let text = std::fs::read_to_string(&host).expect("the header");
    let source = |extension: &str| headers.path(&format!("layout.{extension}"));
    for extension in ["c", "cpp"] {
        std::fs::write(source(extension), "#include <gpufs/host.h>\nint gpufs_alone;\n").expect("written");
    }
    // A field that has moved, and one more at the end.
    for (old, new, told) in [
        (
            "uint32_t mode;                /*",
            "uint64_t mode; /*",
            "GPUFS_OFFSET_(gpufs_options, ring_memory, 20)",
        ),
        ("} gpufs_failure;", "uint64_t more; } gpufs_failure;", "GPUFS_SIZE_(gpufs_failure, 24)"),
    ] {
        assert_eq!(text.matches(old).count(), 1, "{old}");
        std::fs::write(&host, text.replace(old, new)).expect("written");
        for (compilers, extension, standards) in [
            (c_compilers(), "c", &["c99", "c11"][..]),
            (cpp_compilers(), "cpp", &["c++14", "c++17", "c++20"][..]),
        ] {
            for (name, standard) in
                compilers.iter().flat_map(|name| standards.iter().map(move |of| (name, of)))
            {
                let mut command = Command::new(name);
                command.arg(format!("-std={standard}")).arg("-fsyntax-only").arg("-I").arg(headers.dir());
                let output = command.arg(source(extension)).output().expect("the compiler runs");
                assert!(!output.status.success(), "{name} {standard}: {new}");
                assert!(said(&output).contains(told), "{name} {standard}: {new}:\n{}", said(&output));
            }
        }
    }
}

/// Formats that do not fit do not compile, where the compiler can see them, and those that do, do.
#[test]
fn wrong_formats_do_not_compile() {
    let scratch = Scratch::new("formats");
    let wrong = ["\"%s\\n\", 1", "\"%d\\n\", 1.5", "\"%d %d\\n\", 1", "\"%f\\n\", \"x\"", "\"100%\""];
    let right = ["\"%s\\n\", \"x\"", "\"%d\\n\", 1", "\"%5.*f%%\\n\", 3, 1.5", "\"text\\n\""];
    // (compilers, standard, extension, call)
    let cases = [
        (c_compilers(), "c11", "c", "gpufs_fprintf"),
        (cpp_compilers(), "c++14", "cpp", "gpufs_fprintf"),
        (cpp_compilers(), "c++17", "cpp", "gpufs_fprintf"),
        (cpp_compilers(), "c++20", "cpp", "gpufs_fprintf"),
        (cpp_compilers(), "c++20", "cpp", "fprintf"),
    ];
    for (compilers, standard, extension, call) in cases {
        for (arguments, fits) in wrong
            .iter()
            .map(|arguments| (arguments, false))
            .chain(right.iter().map(|arguments| (arguments, true)))
        {
            let source = scratch.path(&format!("format.{extension}"));
            let text = format!(
                "#include <gpufs/stdio.h>\nvoid k(gpufs_file *out);\nvoid k(gpufs_file *out) {{ (void){call}(out, {arguments}); }}\n"
            );
            std::fs::write(&source, text).expect("written");
            for name in &compilers {
                let output =
                    compiler(name, standard).arg("-fsyntax-only").arg(&source).output().expect("runs");
                assert_eq!(
                    output.status.success(),
                    fits,
                    "{name} -std={standard} {call}(out, {arguments}):\n{}",
                    said(&output)
                );
            }
        }
    }
}

/// Arguments that a literal format does not take are no error in any language (C11 7.21.6.1, 2), and a warning wherever the header says so.
#[test]
fn formats_that_take_less_compile() {
    let scratch = Scratch::new("excess");
    // (compilers, standard, extension, call, whether GCC warns)
    let cases = [
        (c_compilers(), "c11", "c", "gpufs_fprintf", true),
        (cpp_compilers(), "c++14", "cpp", "gpufs_fprintf", true),
        (cpp_compilers(), "c++17", "cpp", "fprintf", false),
        (cpp_compilers(), "c++20", "cpp", "gpufs_fprintf", true),
        (cpp_compilers(), "c++20", "cpp", "fprintf", false),
    ];
    for (compilers, standard, extension, call, warned) in cases {
        for (arguments, all) in [
            ("\"%d\\n\", 1, 2", false),
            ("\"text\\n\", 1.5", false),
            ("\"%d%%\\n\", 1, \"x\"", false),
            ("\"%*d%%\\n\", 1, 2", true),
        ] {
            let source = scratch.path(&format!("excess.{extension}"));
            let text = format!(
                "#include <gpufs/stdio.h>\nvoid k(gpufs_file *out);\nvoid k(gpufs_file *out) {{ (void){call}(out, {arguments}); }}\n"
            );
            std::fs::write(&source, text).expect("written");
            for name in &compilers {
                let mut command = compiler(name, standard);
                let output =
                    command.args(["-Wno-error", "-fsyntax-only"]).arg(&source).output().expect("runs");
                let what = format!("{name} -std={standard} {call}(out, {arguments}):\n{}", said(&output));
                assert!(output.status.success(), "{what}");
                let warns = !all && (warned || name.starts_with("clang"));
                assert_eq!(said(&output).contains("warning"), warns, "{what}");
            }
        }
    }
}

/// `nvcc`: named by `NVCC`, on the path, or where CUDA installs itself.
fn nvcc() -> Option<PathBuf> {
    let named = std::env::var_os("NVCC").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("nvcc")).collect::<Vec<_>>();
    named
        .into_iter()
        .chain(found)
        .chain([PathBuf::from("/usr/local/cuda/bin/nvcc")])
        .find(|nvcc| Command::new(nvcc).arg("--version").output().is_ok_and(|output| output.status.success()))
}

/// The files of a folder with this extension.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(root().join(folder))
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension() == Some(OsStr::new(extension)))
        .collect();
    files.sort();
    files
}

/// A kernel that prints so.
fn kernel_that_prints(call: &str, arguments: &str) -> String {
    format!(
        "#include <gpufs/stdio.h>\n#ifndef __global__\n#define __global__ __attribute__((global))\n#endif\n\
         __global__ void k(gpufs::File *out) {{ (void){call}(out, {arguments}); }}\n"
    )
}

/// Kernels in a GPU's C++: those of the examples, the documentation and the tests compile, and so does a format that fits; one that does not fit,
/// does not. `command` makes the compiler of a standard.
fn kernels_compile(name: &str, sources: &[PathBuf], command: impl Fn(&str) -> Command) {
    for standard in ["c++17", "c++20"] {
        for source in sources {
            let output = command(standard).arg(source).output().expect("the compiler runs");
            assert!(output.status.success(), "{name} {standard} {}:\n{}", source.display(), said(&output));
        }
        let scratch = Scratch::new("kernels");
        for (call, standards) in [("gpufs_fprintf", &["c++17", "c++20"][..]), ("fprintf", &["c++20"][..])] {
            for (arguments, fits) in [("\"%d\\n\", 1", true), ("\"%s\\n\", 1", false)] {
                let source = scratch.path(&format!(
                    "kernel.{}",
                    sources[0].extension().and_then(OsStr::to_str).unwrap_or("cu")
                ));
                std::fs::write(&source, kernel_that_prints(call, arguments)).expect("written");
                if standards.contains(&standard) {
                    let output = command(standard).arg(&source).output().expect("the compiler runs");
                    assert_eq!(
                        output.status.success(),
                        fits,
                        "{name} {standard} {call}(out, {arguments}):\n{}",
                        said(&output)
                    );
                }
            }
        }
    }
}

#[test]
fn cuda_kernels_compile() {
    let Some(nvcc) = nvcc() else {
        return skip("cuda_kernels_compile", "no nvcc (NVCC names it)");
    };
    let scratch = Scratch::new("cuda");
    let mut sources = files("examples/cuda", "cu");
    sources.extend(files("tests/c", "cu"));
    for (index, sample) in samples("cuda").iter().enumerate() {
        let source = scratch.path(&format!("page{index}.cu"));
        std::fs::write(&source, &sample.text).expect("written");
        sources.push(source);
    }
    kernels_compile("nvcc", &sources, |standard| {
        let mut command = Command::new(&nvcc);
        command.args(["-dc", "-arch=sm_90", "-Werror=all-warnings", "-Xcompiler=-Wall,-Wextra"]);
        command.arg(format!("-std={standard}")).arg("-I").arg(root().join("include"));
        command.args(["-o".as_ref(), scratch.path("kernel.o").as_os_str()]);
        command
    });
}

#[test]
fn hip_kernels_compile() {
    let Some(clang) = cpp_compilers().into_iter().find(|name| name.starts_with("clang")) else {
        return skip("hip_kernels_compile", "no clang");
    };
    if !Path::new("/usr/include/hip/hip_runtime.h").exists() {
        return skip("hip_kernels_compile", "no HIP headers (Debian: libamdhip64-dev)");
    }
    kernels_compile("clang for HIP", &files("examples/hip", "hip"), |standard| {
        let mut command = compiler(clang, standard);
        command.args([
            "-x",
            "hip",
            "--offload-arch=gfx90a",
            "-nogpulib",
            "--cuda-device-only",
            "-fsyntax-only",
            // HIP 5.2's headers take it from the compiler, where clang 22 does not say it.
            "-D__AMDGCN_WAVEFRONT_SIZE=64",
        ]);
        command
    });
}
