//! A GPU's program as one piece of LLVM bitcode: the sources, the C library's C half, and the start.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::jumps;
use super::scratch::{Scratch, undefined};
use crate::command_line::Options;
use crate::prefix::Prefix;
use crate::tools::{self, Llvm};

/// The C library's sources, but for the start.
const LIBRARY: [&str; 16] = [
    "string",
    "stdlib",
    "strtod",
    "heap",
    "time",
    "tools",
    "strptime",
    "environment",
    "process",
    "names",
    "folders",
    "wide",
    "search",
    "inet",
    "walk",
    "users",
];

/// What is built, for whom, with what.
pub(super) struct Build<'a> {
    pub(super) options: &'a Options,
    pub(super) prefix: &'a Prefix,
    pub(super) llvm: &'a Llvm,
    pub(super) scratch: &'a Scratch,
    /// `--target`, the machine, and features.
    pub(super) target: &'a [&'a str],
}

impl Build<'_> {
    /// clang for the target, with headers.
    fn clang(&self) -> Command {
        let mut command = self.llvm.tool("clang");
        command.args(self.target).args(["-nogpulib", "-nostdlibinc", "-O2", "-fmath-errno"]);
        // There is a malloc, for what scanf's %m allocates.
        command.arg("-DGPUFS_SCAN_ALLOCATES=1");
        for folder in self.prefix.headers() {
            command.arg("-isystem").arg(folder);
        }
        command
    }

    /// One source of the program as LLVM's text: where that is, and it. A source with a `setjmp` is not optimized yet.
    fn source(&self, number: usize, file: &Path) -> Result<(PathBuf, String), String> {
        let output = self.scratch.path(format!("source-{number}.ll"));
        let compiled = |flags: &[&str]| {
            let mut clang = self.clang();
            clang
                .args(&self.options.flags)
                .args(flags)
                .args(["-S", "-emit-llvm", "-o"])
                .arg(&output)
                .arg(file);
            tools::run(&mut clang)?;
            read(&output)
        };
        let mut text = compiled(&[])?;
        if jumps::sets(&text) {
            text = compiled(&["-w", "-Xclang", "-disable-llvm-passes"])?;
        }
        Ok((output, text))
    }

    /// The program with jumps as a GPU can make them, if it has some.
    fn with_jumps(&self, linked: PathBuf) -> Result<PathBuf, String> {
        let text = self.scratch.path("linked.ll");
        let mut opt = self.llvm.tool("opt");
        tools::run(opt.args(["-S", "-passes=instnamer", "-o"]).arg(&text).arg(&linked))?;
        let module = read(&text)?;
        if !jumps::wanted(&module) {
            return Ok(linked);
        }
        let on_amd = self.target.iter().any(|option| option.contains("amdgcn"));
        std::fs::write(&text, jumps::made(&module, on_amd))
            .map_err(|error| format!("{}: {error}", text.display()))?;
        Ok(text)
    }

    /// A source of the C library.
    fn library(&self, name: &str, flags: &[OsString]) -> Result<PathBuf, String> {
        let output = self.scratch.path(format!("{name}.bc"));
        let mut clang = self.clang();
        clang
            .args(["-std=c11", "-fno-builtin", "-D_GNU_SOURCE", "-c", "-emit-llvm"])
            .args(flags)
            .arg("-o")
            .arg(&output);
        tools::run(clang.arg(self.prefix.libc().join(format!("{name}.c"))))?;
        Ok(output)
    }

    /// Modules as one.
    fn join(&self, modules: &[PathBuf], name: &str, flags: &[&str]) -> Result<PathBuf, String> {
        let output = self.scratch.path(name);
        tools::run(self.llvm.tool("llvm-link").args(flags).args(modules).arg("-o").arg(&output))?;
        Ok(output)
    }

    /// Everything as one module, `more` of bitcode with it, without what nobody calls. Functions that begin with one of `provided` come from
    /// elsewhere; another that is undefined is an error.
    pub(super) fn link(&self, more: &[PathBuf], provided: &dyn Fn(&str) -> bool) -> Result<PathBuf, String> {
        let mut modules = Vec::new();
        let mut arguments = None;
        for (number, file) in self.options.files.iter().enumerate() {
            let (module, text) = self.source(number, file)?;
            arguments = arguments.or(main_arguments(&text));
            modules.push(module);
        }
        let Some(arguments) = arguments else {
            return Err("the program does not link: none of its sources defines main".to_owned());
        };
        if !matches!(arguments, 0 | 2 | 3) {
            return Err(format!(
                "main has {arguments} parameters: it is main(void), main(argc, argv) or main(argc, argv, envp)"
            ));
        }
        modules.push(self.library("start", &[format!("-DGPUFS_MAIN_ARGUMENTS={arguments}").into()])?);
        let program = self.join(&modules, "own.bc", &[])?;
        let library = LIBRARY.iter().map(|name| self.library(name, &[])).collect::<Result<Vec<_>, _>>()?;
        let library = self.join(&library, "library.bc", &[])?;
        // The program's own functions come before those of the library that have the same names.
        let mut linked = self.join(&[program, library], "linked.bc", &["--only-needed"])?;
        linked = self.with_jumps(linked)?;
        if !more.is_empty() {
            let modules = [&[linked], more].concat();
            linked = self.join(&modules, "linked-more.bc", &["--only-needed"])?;
        }
        let whole = self.scratch.path("whole.bc");
        let mut opt = self.llvm.tool("opt");
        opt.args([
            "-passes=internalize,globaldce,default<O2>",
            "-internalize-public-api-list=gpufs_program_start",
            "-o",
        ]);
        tools::run(opt.arg(&whole).arg(&linked))?;
        let mut nm = self.llvm.tool("llvm-nm");
        let listed = tools::output(nm.args(["--undefined-only", "--just-symbol-name"]).arg(&whole))?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let missing: Vec<_> = listed.lines().filter(|name| !provided(name)).map(str::to_owned).collect();
        if missing.is_empty() { Ok(whole) } else { Err(undefined(missing)) }
    }
}

fn read(file: &Path) -> Result<String, String> {
    let text = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// How many parameters `main` has, if this module defines it.
fn main_arguments(module: &str) -> Option<usize> {
    let line = module.lines().find(|line| line.starts_with("define") && line.contains(" @main("))?;
    let list = line.split_once(" @main(")?.1;
    // Attributes of parameters may have parentheses.
    let mut depth = 1;
    let end = list.find(|letter| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        depth == 0
    })?;
    let list = &list[..end];
    Some(if list.trim().is_empty() { 0 } else { list.split(", ").count() })
}

#[cfg(test)]
mod tests {
    use super::main_arguments;

    #[test]
    fn mains_of_every_kind() {
        let two = "define dso_local noundef i32 @main(i32 noundef %argc, ptr noundef readonly captures(none) %argv) #0 {";
        assert_eq!(main_arguments(two), Some(2));
        assert_eq!(main_arguments("define i32 @main() #0 {"), Some(0));
        assert_eq!(main_arguments("define i32 @main(i32 %0, ptr %1, ptr %2) {"), Some(3));
        assert_eq!(main_arguments("declare i32 @main(i32)\ndefine i32 @other() {"), None);
    }
}
