//! C programs as GPU programs, by `gpufs build`: the project's own for each kind of GPU, and programs of other people, unchanged, from folders
//! that hold their sources.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::step::{self, Report};
use crate::workspace::{cargo, root, target_directory};

/// The project's own programs, in `tests/c/programs`.
const OWN: [&str; 11] =
    ["tour", "ends", "jumps", "options", "folders", "at", "wide", "streams", "echo", "here", "tools"];
/// Those of which the day builds code objects: others take LLVM minutes each, and the night builds all.
const BY_DAY: [&str; 1] = ["ends"];

/// Builds the project's own programs from a prefix that holds device code: PTX, code objects of some or, `at_night`, all, and cubins if CUDA's tools
/// are installed.
pub(crate) fn check(prefix: &Path, at_night: bool) -> Vec<Report> {
    let mut reports =
        vec![step::run("gpufs", &mut cargo("build --release -p gpufs"), Duration::from_secs(10 * 60))];
    if !reports[0].passed() {
        return reports;
    }
    let tools = ["clang", "llvm-link", "opt", "llvm-nm", "ld.lld"].map(gpufs_build::llvm_tool);
    if let Some(missing) = tools.iter().find_map(|tool| tool.as_ref().err()) {
        reports.push(Report::skipped("C programs", missing.clone()));
        return reports;
    }
    let objects: &[&str] = if at_night { &OWN } else { &BY_DAY };
    for (step, ending, part, programs) in [
        ("C programs, PTX", "ptx", "gpufs-libc.ptx", &OWN[..]),
        ("C programs, gfx942", "hsaco", "gpufs-libc-gfx942.bc", objects),
    ] {
        reports.push(if prefix.join("lib/gpufs").join(part).exists() {
            step::in_process(step, || own(prefix, programs, ending, None))
        } else {
            Report::skipped(step, format!("there is no {part}"))
        });
    }
    let cubin = "C programs, cubin";
    reports.push(match gpufs_build::cuda_tools() {
        Ok(folder) if prefix.join("lib/gpufs/gpufs-libc.ptx").exists() => {
            step::in_process(cubin, || own(prefix, &OWN, "cubin", Some(&folder)))
        }
        Ok(_) => Report::skipped(cubin, "there is no gpufs-libc.ptx"),
        Err(reason) => Report::skipped(cubin, reason),
    });
    reports
}

/// Builds each program, and one that does not link. `tools` is the folder of CUDA's.
fn own(prefix: &Path, programs: &[&str], ending: &str, tools: Option<&Path>) -> Result<(), String> {
    let folder = target_directory().join("programs-check");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let build = |source: &Path, output: &Path| {
        let mut command = Command::new(target_directory().join("release/gpufs"));
        command.arg("build").arg(source).arg("-o").arg(output).env("GPUFS_PREFIX", prefix);
        if ending == "hsaco" {
            command.args(["--arch", "gfx942"]);
        }
        if let Some(tools) = tools {
            let path = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{path}", tools.display()));
        }
        command.output().map_err(|error| error.to_string())
    };
    for name in programs {
        let output = folder.join(name).with_extension(ending);
        let built = build(&root().join("tests/c/programs").join(name).with_extension("c"), &output)?;
        if !built.status.success() {
            return Err(said(&built));
        }
        let image = fs::read(&output).map_err(|error| error.to_string())?;
        if ending == "ptx" {
            gpufs_build::is_whole(&String::from_utf8_lossy(&image))?;
        }
        let kernel = b"gpufs_program_start";
        if !image.windows(kernel.len()).any(|window| window == kernel) {
            return Err(format!("{}: it has no kernel", output.display()));
        }
        println!("{}: {} bytes", output.display(), image.len());
    }
    let source = folder.join("undefined.c");
    fs::write(&source, "int nobody(void);\nint main(void) { return nobody(); }\n")
        .map_err(|error| error.to_string())?;
    let refused = build(&source, &folder.join("undefined").with_extension(ending))?;
    if refused.status.success() || !said(&refused).contains("does not link: nobody is in none of its sources")
    {
        return Err(format!("a program that does not link: {}", said(&refused)));
    }
    Ok(())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A program of other people, in a folder named after its repository.
struct Program {
    name: &'static str,
    folder: &'static str,
    /// Sources and flags, from the folder.
    sources: &'static str,
    arguments: &'static [&'static str],
    input: &'static str,
    /// Options of `gpufs run` on a GPU.
    options: &'static str,
}

const JSON: &str = "{\"user\": \"johndoe\", \"admin\": false, \"uid\": 1000,\n \"groups\": [\"users\", \"wheel\", {\"deep\": [1, 2.5e3, null]}]}\n";

/// Jumps of every kind that Lua makes: errors caught and thrown again, coroutines, variables that are closed, the last error.
const LUA: &str = "print(pcall(error, {code = 5}), pcall(function() local x; return x.y end)) \
     local co = coroutine.wrap(function(a) for i = 1, 5 do a = coroutine.yield(i * a) end return 'done' end) \
     for i = 1, 6 do io.write(tostring(co(i)), ' ') end \
     print(xpcall(function() error('deep', 2) end, function(m) return 'handled: ' .. m end)) \
     print(pcall(table.sort, {3, 1, 'x'}), pcall(string.rep, 'x', -1), load('return 1 +')) \
     do local g <close> = setmetatable({}, {__close = function() print('closed') end}) pcall(error) end \
     print(io.open('/no/such/file')) error('the end', 0)";

/// A tool of sbase, which reads the standard input.
const fn sbase(name: &'static str, sources: &'static str, arguments: &'static [&'static str]) -> Program {
    Program { name, folder: "sbase", sources, arguments, input: JSON, options: "" }
}

/// For all of sbase.
const SBASE: &str = "-D_DEFAULT_SOURCE -D_XOPEN_SOURCE=700 -D_FILE_OFFSET_BITS=64 -I.";

/// What `programs` knows. The repositories are public: zserge/jsmn, codeplea/tinyexpr, B-Con/crypto-algorithms, lua/lua, DaveGamble/cJSON,
/// kokke/tiny-AES-c, lz4/lz4, michaelforney/sbase.
const PROGRAMS: &[Program] = &[
    Program {
        name: "jsmn-simple",
        folder: "jsmn",
        sources: "example/simple.c",
        arguments: &[],
        input: "",
        options: "",
    },
    Program {
        name: "jsmn-jsondump",
        folder: "jsmn",
        sources: "example/jsondump.c",
        arguments: &[],
        input: JSON,
        options: "",
    },
    Program {
        name: "jsmn-tests",
        folder: "jsmn",
        sources: "test/tests.c",
        arguments: &[],
        input: "",
        options: "",
    },
    Program {
        name: "tinyexpr-example",
        folder: "tinyexpr",
        sources: "example.c tinyexpr.c",
        arguments: &[],
        input: "",
        options: "",
    },
    Program {
        name: "tinyexpr-example2",
        folder: "tinyexpr",
        sources: "example2.c tinyexpr.c",
        arguments: &["sqrt(x^2+y^2) - sin(pi/3)"],
        input: "",
        options: "",
    },
    Program {
        name: "tinyexpr-smoke",
        folder: "tinyexpr",
        sources: "smoke.c tinyexpr.c",
        arguments: &[],
        input: "",
        options: "",
    },
    Program {
        name: "tinyexpr-repl",
        folder: "tinyexpr",
        sources: "repl.c tinyexpr.c",
        arguments: &[],
        input: "1+2*3\nsin(pi/2)\nlog(100)\n2^0.5\nfac(10)\n1/0\nquit\n",
        options: "",
    },
    Program {
        name: "sha256",
        folder: "crypto-algorithms",
        sources: "sha256.c sha256_test.c",
        arguments: &[],
        input: "",
        options: "",
    },
    Program {
        name: "base64",
        folder: "crypto-algorithms",
        sources: "base64.c base64_test.c",
        arguments: &[],
        input: "",
        options: "",
    },
    Program {
        name: "md5",
        folder: "crypto-algorithms",
        sources: "md5.c md5_test.c",
        arguments: &[],
        input: "",
        options: "",
    },
    Program {
        name: "aes",
        folder: "crypto-algorithms",
        sources: "-std=gnu89 aes.c aes_test.c",
        arguments: &[],
        input: "",
        options: "",
    },
    Program {
        name: "lua",
        folder: "lua",
        // Without tmpnam, and without computed goto, which clang for NVPTX has not.
        sources: "-DLUA_USE_JUMPTABLE=0 -DMAKE_LUA -Dlua_tmpnam(b,e)=((e)=1) -DLUA_TMPNAMBUFSIZE=32 onelua.c",
        arguments: &[
            "-e",
            "local t = {} for i = 1, 100 do t[i] = (i * 7919) % 101 end table.sort(t) print(table.concat(t, ' ', 1, 20), #t, math.pi) \
             for w in ('some words in a row'):gmatch('%a+') do io.write(w:upper(), ';') end print(string.format('%5.2f|%q', 2 / 3, 'a\\nb'))",
        ],
        input: "",
        options: "--stack 96K",
    },
    Program {
        name: "lua-errors",
        folder: "lua",
        sources: "-DLUA_USE_JUMPTABLE=0 -DMAKE_LUA -Dlua_tmpnam(b,e)=((e)=1) -DLUA_TMPNAMBUFSIZE=32 onelua.c",
        arguments: &["-e", LUA],
        input: "",
        options: "--stack 96K",
    },
    Program {
        name: "cjson",
        folder: "cJSON",
        sources: "test.c cJSON.c",
        arguments: &[],
        input: "",
        options: "",
    },
    Program {
        name: "tiny-aes",
        folder: "tiny-AES-c",
        sources: "-DAES256=1 -DAES192=0 test.c aes.c",
        arguments: &[],
        input: "",
        options: "",
    },
    Program {
        name: "lz4",
        folder: "lz4",
        sources: "-Ilib examples/simple_buffer.c lib/lz4.c",
        arguments: &[],
        input: "",
        options: "",
    },
    sbase(
        "wc",
        "wc.c libutf/fgetrune.c libutf/isspacerune.c libutf/rune.c libutf/runetype.c libutil/eprintf.c libutil/fshut.c",
        &[],
    ),
    sbase("cksum", "cksum.c libutil/eprintf.c libutil/fshut.c", &[]),
    sbase("uniq", "uniq.c libutil/ealloc.c libutil/eprintf.c libutil/fshut.c libutil/strtonum.c", &["-c"]),
    sbase("sha512sum", "sha512sum.c libutil/crypt.c libutil/eprintf.c libutil/fshut.c libutil/sha512.c", &[]),
];

/// Builds each program that is there natively, for CPU lanes, and for a GPU; compares the first two; leaves the third in `target/programs` with
/// what it must print, and `run`, which runs and compares all of them on a machine with a GPU. Whether all went well.
pub(crate) fn run(sources: &Path, prefix: &Path, gpu: &str) -> bool {
    let folder = target_directory().join("programs");
    let _ = fs::remove_dir_all(&folder);
    if let Err(error) = fs::create_dir_all(&folder) {
        eprintln!("{}: {error}", folder.display());
        return false;
    }
    let mut script = String::from(SCRIPT_HEAD);
    let mut reports = Vec::new();
    for program in PROGRAMS {
        let from = sources.join(program.folder);
        if !from.is_dir() {
            reports.push(Report::skipped(program.name, format!("{} is not there", from.display())));
            continue;
        }
        reports.push(step::in_process(program.name, || {
            let expected = natively(program, &from, &folder)?;
            on_lanes(program, &from, &folder, prefix, &expected)?;
            for_gpu(program, &from, &folder, prefix, gpu)?;
            let quoted: String = program.arguments.iter().fold(String::new(), |mut text, argument| {
                let _ = write!(text, " '{}'", argument.replace('\'', "'\\''"));
                text
            });
            let status = expected.status.code().unwrap_or(-1);
            let _ = writeln!(script, "try {} {status} '{}'{quoted}", program.name, program.options);
            Ok(())
        }));
    }
    script.push_str(SCRIPT_END);
    let written = copy(&prefix.join("bin/gpufs"), &folder.join("gpufs")).and_then(|()| {
        let path = folder.join("run");
        fs::write(&path, script)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
    });
    if let Err(error) = written {
        eprintln!("{}: {error}", folder.display());
        return false;
    }
    println!("{}: copy it to a machine with a GPU and run {0}/run there", folder.display());
    step::summarize(&reports)
}

/// Runs each program, and compares its output and status with the native one's.
const SCRIPT_HEAD: &str = "#!/usr/bin/env bash\n\
# Runs each program on the GPU; compares its output and its status with those of the same program on a CPU.\n\
cd \"$(dirname \"$0\")\" || exit 1\n\
failed=0\n\
try() {\n\
    name=$1; wanted=$2; options=$3; shift 3\n\
    timeout -s KILL 120 ./gpufs run $options \"./$name.cubin\" -- \"$@\" <\"$name.input\" >\"/tmp/$name.got\" 2>\"/tmp/$name.err\"\n\
    status=$?\n\
    # Times differ from run to run.\n\
    sed -i 's/[0-9]*ms$/ms/' \"/tmp/$name.got\"\n\
    if [ $status = $wanted ] && sed 's/[0-9]*ms$/ms/' \"$name.expected\" | cmp -s \"/tmp/$name.got\"; then\n\
        echo \"ok $name ($(wc -c <\"$name.expected\") bytes, status $status)\"\n\
    else\n\
        failed=1; echo \"FAILED $name: status $status, wanted $wanted\"; head -5 \"/tmp/$name.err\"\n\
        diff \"$name.expected\" \"/tmp/$name.got\" | head -10\n\
    fi\n\
}\n";
const SCRIPT_END: &str = "exit $failed\n";

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::copy(from, to).map(drop)
}

/// A program's sources and flags.
fn words(program: &Program) -> impl Iterator<Item = &'static str> {
    let flags = if program.folder == "sbase" { SBASE } else { "" };
    flags.split_whitespace().chain(program.sources.split(' '))
}

/// Runs a program with its input.
fn output_of(command: &mut Command, program: &Program) -> Result<Output, String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    // A program that reads nothing may have ended.
    let _ = child.stdin.take().expect("a pipe").write_all(program.input.as_bytes());
    child.wait_with_output().map_err(|error| error.to_string())
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if output.status.success() { Ok(()) } else { Err(said(&output)) }
}

/// Output without the milliseconds that end a line, which differ from run to run.
fn without_times(output: &[u8]) -> Vec<String> {
    let masked = |line: &str| match line.strip_suffix("ms") {
        Some(before) => before.trim_end_matches(|character: char| character.is_ascii_digit()).to_owned(),
        None => line.to_owned(),
    };
    String::from_utf8_lossy(output).split('\n').map(masked).collect()
}

/// Builds by the machine's compiler, and keeps what the program prints.
fn natively(program: &Program, from: &Path, folder: &Path) -> Result<Output, String> {
    let native = folder.join("native");
    let mut compiler = Command::new("cc");
    compiler.arg("-O2").args(words(program)).arg("-o").arg(&native).args(["-lm", "-w"]).current_dir(from);
    succeed(&mut compiler)?;
    let output = output_of(Command::new(&native).args(program.arguments), program)?;
    let keep = |ending: &str, bytes: &[u8]| {
        fs::write(folder.join(program.name).with_extension(ending), bytes).map_err(|error| error.to_string())
    };
    keep("expected", &output.stdout)?;
    keep("input", program.input.as_bytes())?;
    fs::remove_file(native).map_err(|error| error.to_string())?;
    Ok(output)
}

fn gpufs(prefix: &Path) -> Command {
    let mut command = Command::new(prefix.join("bin/gpufs"));
    command.env("GPUFS_PREFIX", prefix);
    command
}

/// The same on CPU lanes: equal output and status.
fn on_lanes(
    program: &Program,
    from: &Path,
    folder: &Path,
    prefix: &Path,
    expected: &Output,
) -> Result<(), String> {
    let built = folder.join("lanes");
    let mut build = gpufs(prefix);
    build
        .args(["build", "--device", "cpu", "-w"])
        .args(words(program))
        .arg("-o")
        .arg(&built)
        .current_dir(from);
    succeed(&mut build)?;
    let mut command = Command::new("timeout");
    let got = output_of(command.args(["-s", "KILL", "60"]).arg(&built).args(program.arguments), program)?;
    fs::remove_file(built).map_err(|error| error.to_string())?;
    if without_times(&got.stdout) != without_times(&expected.stdout)
        || got.status.code() != expected.status.code()
    {
        return Err(format!(
            "on CPU lanes it ended with {} and printed\n{}\nand natively with {} and\n{}",
            got.status,
            said(&got),
            expected.status,
            said(expected)
        ));
    }
    println!("{}: {} bytes, {}, on CPU lanes as natively", program.name, got.stdout.len(), got.status);
    Ok(())
}

fn for_gpu(program: &Program, from: &Path, folder: &Path, prefix: &Path, gpu: &str) -> Result<(), String> {
    let output: PathBuf = folder.join(program.name).with_extension("cubin");
    let mut build = gpufs(prefix);
    build.args(["build", "-w", "--arch", gpu]).args(words(program)).arg("-o").arg(output).current_dir(from);
    succeed(&mut build)
}
