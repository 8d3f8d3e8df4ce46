//! Programs for AMD GPUs: everything is bitcode until `clang` makes one object of it, which `ld.lld` makes a code object. Built, never run.

use std::path::Path;

use super::bitcode::Build;
use super::scratch::Scratch;
use crate::command_line::Options;
use crate::prefix::Prefix;
use crate::tools::{self, Llvm};

pub(super) fn build(options: &Options, output: &Path) -> Result<(), String> {
    let prefix = Prefix::find()?;
    let llvm = Llvm::find()?;
    let mut linker = llvm.other("ld.lld", "lld-22")?;
    let scratch = Scratch::new()?;
    let arch = options.arch.clone().unwrap_or_else(|| "gfx90a".to_owned());
    let device = [format!("lib/gpufs/gpufs-{arch}.bc"), format!("lib/gpufs/gpufs-libc-{arch}.bc")];
    let device = [prefix.part(&device[0], &arch)?, prefix.part(&device[1], &arch)?];
    let mcpu = format!("-mcpu={arch}");
    let target = ["--target=amdgcn-amd-amdhsa", &mcpu];
    let build = Build { options, prefix: &prefix, llvm: &llvm, scratch: &scratch, target: &target };
    let whole = build.link(&device, &|_| false)?;
    let object = scratch.path("program.o");
    let mut clang = llvm.tool("clang");
    clang.args(target).args(["-nogpulib", "-O2", "-Wno-override-module", "-c", "-x", "ir"]);
    tools::run(clang.arg(&whole).arg("-o").arg(&object))?;
    tools::run(linker.args(["-shared", "--no-undefined", "-o"]).arg(output).arg(&object))
}
