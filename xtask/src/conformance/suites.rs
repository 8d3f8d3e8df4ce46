//! Which programs a suite has, found in the folder that was given, and how each is compiled. Only names are here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{files_of, ours};

/// A test.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// `suite/name`.
    pub(crate) name: String,
    /// What is compiled.
    pub(crate) sources: Vec<PathBuf>,
    /// Folders of headers.
    pub(crate) include: Vec<PathBuf>,
    /// Further options of the compiler.
    pub(crate) options: Vec<String>,
    /// Its standard input; empty if there is none.
    pub(crate) input: Option<PathBuf>,
}

/// The tests of a suite that concern streams and files.
pub(crate) fn programs(suite: &str, folder: &Path) -> Result<Vec<Program>, String> {
    match suite {
        "musl" => musl(folder),
        "glibc" => glibc(folder),
        "llvm" => llvm(folder),
        other => Err(format!("there is no suite '{other}'; use musl, glibc or llvm")),
    }
}

/// Tests of musl's libc-test about streams and files.
const MUSL: &[&str] = &[
    "functional/fcntl",
    "functional/fdopen",
    "functional/fscanf",
    "functional/fwscanf",
    "functional/memstream",
    "functional/popen",
    "functional/snprintf",
    "functional/sscanf",
    "functional/sscanf_long",
    "functional/stat",
    "functional/swprintf",
    "functional/ungetc",
    "functional/utime",
    "regression/fflush-exit",
    "regression/fgets-eof",
    "regression/fgetwc-buffering",
    "regression/flockfile-list",
    "regression/ftello-unflushed-append",
    "regression/lseek-large",
    "regression/mkdtemp-failure",
    "regression/mkstemp-failure",
    "regression/printf-1e9-oob",
    "regression/printf-fmt-g-round",
    "regression/printf-fmt-g-zeros",
    "regression/printf-fmt-n",
    "regression/rewind-clear-error",
    "regression/rlimit-open-files",
    "regression/scanf-bytes-consumed",
    "regression/scanf-match-literal-eof",
    "regression/scanf-nullbyte-char",
    "regression/setvbuf-unget",
    "regression/sscanf-eof",
    "regression/statvfs",
];

/// Files that libc-test's programs share, and how what a program uses of each begins.
const MUSL_SHARED: &[(&str, &[&str])] = &[
    ("print", &[""]),
    ("rand", &["t_rand", "t_shuffle", "t_choose"]),
    ("path", &["t_pathrel"]),
    ("utf8", &["t_setutf8"]),
    ("setrlim", &["t_setrlim", "t_memfill"]),
    ("memfill", &["t_memfill"]),
    ("vmfill", &["t_vmfill", "t_memfill"]),
    ("fdfill", &["t_fdfill"]),
];

fn musl(folder: &Path) -> Result<Vec<Program>, String> {
    if !folder.join("src/common/print.c").exists() {
        return Err(format!("{}: no src/common: it is not libc-test", folder.display()));
    }
    let program = |name: &&str| {
        let source = folder.join(format!("src/{name}.c"));
        let text = std::fs::read_to_string(&source).ok()?;
        let shared = MUSL_SHARED.iter().filter(|(_, uses)| uses.iter().any(|word| text.contains(word)));
        let shared = shared.map(|(file, _)| folder.join(format!("src/common/{file}.c")));
        Some(Program {
            name: format!("musl/{name}"),
            sources: std::iter::once(source).chain(shared.filter(|path| path.exists())).collect(),
            include: vec![folder.join("src/common")],
            options: ["-std=c99", "-D_POSIX_C_SOURCE=200809L"].map(str::to_owned).to_vec(),
            input: None,
        })
    };
    Ok(MUSL.iter().filter_map(program).collect())
}

fn glibc(folder: &Path) -> Result<Vec<Program>, String> {
    let mut programs = Vec::new();
    for part in ["stdio-common", "libio"] {
        let standards = standards(&folder.join(part).join("Makefile"));
        for source in files_of(&folder.join(part))? {
            let Some(name) =
                source.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".c"))
            else {
                continue;
            };
            if !is_test(&source, name) {
                continue;
            }
            let input = source.with_extension("input");
            let standard = standards.get(name).map_or("-std=gnu17", String::as_str);
            // The suite's own folder has what its older tests begin with, and headers of glibc's own, which are no programs' either.
            let own = folder.display().to_string();
            let options = [standard, "-D_GNU_SOURCE", "-DOBJPFX=\"./\"", "-idirafter", &own];
            let program = Program {
                name: format!("glibc/{part}/{name}"),
                // libio has a stdio.h that is not for programs.
                include: if part == "libio" { vec![ours()] } else { vec![ours(), folder.join(part)] },
                options: options.iter().map(|option| (*option).to_owned()).collect(),
                input: input.exists().then_some(input),
                sources: vec![source.clone()],
            };
            programs.extend(with_inputs(program, name)?);
        }
    }
    Ok(programs)
}

/// The standards that a makefile has tests compiled for, `CFLAGS-NAME.c += -std=…`, by their names; none where there is no makefile.
fn standards(makefile: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(makefile).unwrap_or_default();
    let line = |line: &str| {
        let (name, flags) = line.strip_prefix("CFLAGS-")?.split_once(".c +=")?;
        let standard = flags.split_whitespace().find(|flag| flag.starts_with("-std="))?;
        Some((name.to_owned(), standard.to_owned()))
    };
    text.lines().filter_map(line).collect()
}

/// A program that checks what it reads, `tst-scanf-format-FUNCTION-TYPE`, once for each input of its type; another once.
fn with_inputs(program: Program, name: &str) -> Result<Vec<Program>, String> {
    let Some((_, kind)) = name.strip_prefix("tst-scanf-format-").and_then(|rest| rest.split_once('-')) else {
        return Ok(vec![program]);
    };
    let folder = program.sources[0].parent().expect("a file of a folder");
    let mut programs = Vec::new();
    for input in files_of(folder)? {
        let text = input.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let conversion = text.strip_prefix(&format!("tst-scanf-format-{kind}-"));
        if let Some(conversion) = conversion.and_then(|rest| rest.strip_suffix(".input")) {
            let name = format!("{}-{conversion}", program.name);
            programs.push(Program { name, input: Some(input.clone()), ..program.clone() });
        }
    }
    Ok(programs)
}

/// Whether a source of glibc is a test, by its name and its text: the library itself and parts of tests lie in the same folder.
fn is_test(source: &Path, name: &str) -> bool {
    let begins =
        ["tst", "bug", "test", "scanf", "tfformat", "tiformat", "tllformat", "temptest", "errnobug", "xbug"];
    // Parts that tests include, tests of the build, and programs whose output scripts of glibc's check (tst-printf-format-…).
    let parts = ["tst-printf-format-", "-skeleton", "-main", "-static", "-ind", "tst-vtables-common"];
    let Ok(text) = std::fs::read_to_string(source) else { return false };
    // Those take the system apart, in glibc's own container: they unlink its shell, or change its root.
    let container = ["_PATH_BSHELL", "xchroot", "support_become_root", "support_can_chroot"];
    let main = std::fs::read_to_string(source.with_file_name(format!("{name}-main.c"))).unwrap_or_default();
    begins.iter().any(|begin| name.starts_with(begin))
        && !container.iter().any(|word| text.contains(word) || main.contains(word))
        && !["tst-popen3", "tst-setvbuf2"].contains(&name)
        && !parts.iter().any(|part| name.contains(part))
        && (text.contains("main (") || text.contains("#include"))
        && name != "scanf"
}

/// LLVM's tests are C++ on a frame of its own; none is compiled yet.
fn llvm(folder: &Path) -> Result<Vec<Program>, String> {
    Err(format!(
        "{}: LLVM's tests call functions of its own namespace, which drop_in.h does not have",
        folder.display()
    ))
}
