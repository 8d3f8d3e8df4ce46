//! The names of `libgpufs`: the one that programs ask for when they run, and those that it exports, which are those that the headers declare.

use std::collections::BTreeSet;
use std::process::Command;

use gpufs_tests::compilers::{LIBRARY, SONAME, c_compilers, installed, root, said};
use gpufs_tests::skip;

/// What a tool says of the shared library.
fn told(tool: &'static str, arguments: &[&str]) -> Option<String> {
    if installed(&[tool]).is_empty() {
        skip("c_names", format!("no {tool}"));
        return None;
    }
    let output =
        Command::new(tool).args(arguments).arg(LIBRARY.join("libgpufs.so")).output().expect("the tool runs");
    assert!(output.status.success(), "{}", said(&output));
    Some(String::from_utf8(output.stdout).expect("names are ASCII"))
}

#[test]
fn programs_ask_for_the_major_version() {
    let Some(dynamic) = told("readelf", &["-d", "-W"]) else { return };
    let line = dynamic.lines().find(|line| line.contains("(SONAME)")).expect("a SONAME");
    assert!(line.contains(&format!("[{SONAME}]")), "{line}");
    let package =
        std::fs::read_to_string(root().join("xtask/src/dist/gpufs-config.cmake")).expect("the package");
    assert!(package.contains(&format!("IMPORTED_SONAME {SONAME}\n")), "CMake's package names another");
}

/// The functions that preprocessed headers declare and do not define.
fn declared(text: &str) -> BTreeSet<String> {
    let (mut names, mut depth, mut statement) = (BTreeSet::new(), 0, String::new());
    for byte in text.lines().filter(|line| !line.starts_with('#')).flat_map(|line| line.chars().chain([' ']))
    {
        match byte {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    statement.push('}');
                }
            }
            ';' if depth == 0 => {
                names.extend(prototype(&statement));
                statement.clear();
            }
            _ if depth == 0 => statement.push(byte),
            _ => {}
        }
    }
    names
}

/// The function of gpufs that a statement declares. A definition before it, which no semicolon ends, is not a part of it.
fn prototype(statement: &str) -> Option<String> {
    let statement = statement.rsplit('}').next()?.trim();
    let (before, _) = statement.split_once('(')?;
    let name = before.rsplit(|byte: char| !byte.is_ascii_alphanumeric() && byte != '_').next()?;
    let is_local =
        statement.starts_with("static") || statement.starts_with("typedef") || statement.contains('=');
    (name.starts_with("gpufs_") && !is_local).then(|| name.to_owned())
}

#[test]
fn what_is_exported_is_declared_and_what_is_declared_is_exported() {
    let Some(symbols) = told("nm", &["-D", "--defined-only"]) else { return };
    let exported: BTreeSet<String> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .filter(|name| name.starts_with("gpufs_"))
        .map(|name| name.split('@').next().unwrap_or_default().to_owned())
        .collect();
    let compilers = c_compilers();
    let Some(compiler) = compilers.first() else {
        return skip("what_is_exported_is_declared", "no C compiler");
    };
    let mut all = BTreeSet::new();
    for header in std::fs::read_dir(root().join("include/gpufs")).expect("the headers") {
        let path = header.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "h") && !path.ends_with("drop_in.h") {
            let mut command = Command::new(compiler);
            command
                .args(["-std=c11", "-D_GNU_SOURCE", "-E", "-P", "-x", "c", "-I"])
                .arg(root().join("include"));
            let output = command.arg(&path).output().expect("the compiler runs");
            assert!(output.status.success(), "{}: {}", path.display(), said(&output));
            all.extend(declared(&String::from_utf8_lossy(&output.stdout)));
        }
    }
    assert!(exported.len() > 100, "{exported:?}");
    let hidden: Vec<_> = exported.difference(&all).collect();
    assert!(hidden.is_empty(), "exported, and in no header: {hidden:?}");
    let missing: Vec<_> = all.difference(&exported).collect();
    assert!(missing.is_empty(), "in a header, and not exported: {missing:?}");
}

#[test]
fn prototypes_are_told_from_definitions() {
    let text = "typedef int (*gpufs_kind)(int);\nstatic inline int gpufs_here(void) { return 1; }\nextern int gpufs_there(char *a);\n\
                const char *gpufs_text(\n  int number);\nstruct gpufs_a { int gpufs_b; };\nint other(void);";
    assert_eq!(declared(text).into_iter().collect::<Vec<_>>(), ["gpufs_text", "gpufs_there"]);
}
