//! PTX assembled for one GPU, as a program that is loaded in a moment.
//!
//! Functions are assembled apart from the kernels that call them, and linked (`ptxas -c`, `nvlink`), as nvcc does with `-rdc=true`. In a program
//! that `ptxas` assembles whole, each kernel has copies of the functions that it calls, whose registers are the kernel's: that takes ten times as
//! long, the program is three times as large, and what a kernel keeps across a call goes through memory (docs/notes/assembling.md).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::preserve::{is_known, lightened};
use crate::ptx::{Part, parts};
use crate::stack::{deepest, frames};
use crate::toolchain::{cuda_tools, ptxas};

/// Bytes of stack that a session gives each thread, unless it is told another number (`Builder::gpu_stack`). What takes more is assembled whole: then
/// the driver knows how much.
const STACK_BYTES: u64 = 8 << 10;

/// Assembles the file `ptx`, which [`finish`](crate::finish) has finished, for a GPU such as `sm_90`, to `output`. With at most so many `registers` a
/// thread, if that is said; a kernel's own limit counts where it is lower.
///
/// Its parts lie beside `output` meanwhile, in files whose names begin as its does.
///
/// # Errors
/// There is no ptxas; what it does not take, in its words.
pub fn assemble(ptx: &Path, gpu: &str, output: &Path, registers: Option<u32>) -> Result<(), String> {
    // Without nvlink, or where a kernel's limit is not kept by what it calls through a pointer, or much stack is taken, as a whole.
    let why = match cuda_tools().and_then(|tools| linked(&tools, ptx, gpu, output, registers)) {
        Ok(()) => return Ok(()),
        Err(why) => why,
    };
    eprintln!("gpufs: {} is assembled as a whole, which takes longer: {why}", ptx.display());
    let mut whole = Command::new(ptxas()?);
    whole.arg(format!("-arch={gpu}")).args(limited(registers)).arg("-o").args([output, ptx]);
    run(&mut whole)
}

/// The option that bounds registers.
fn limited(registers: Option<u32>) -> Option<String> {
    registers.map(|registers| format!("-maxrregcount={registers}"))
}

/// Each part assembled at the same time, and then linked.
fn linked(tools: &Path, ptx: &Path, gpu: &str, output: &Path, registers: Option<u32>) -> Result<(), String> {
    let text = fs::read_to_string(ptx).map_err(|error| format!("{}: {error}", ptx.display()))?;
    let may_preserve = is_known(tools, gpu);
    let (mut objects, mut running) = (Vec::new(), Vec::new());
    for (number, Part { registers: own, ptx }) in parts(&text).into_iter().enumerate() {
        let [source, object] = ["ptx", "o"].map(|ending| output.with_extension(format!("{number}.{ending}")));
        let least = registers.into_iter().chain(own).min();
        // With few registers there are none to leave to others.
        let ptx = if may_preserve && least.is_none() { lightened(&ptx, gpu) } else { ptx };
        fs::write(&source, &ptx).map_err(|error| format!("{}: {error}", source.display()))?;
        let mut command = Command::new(tools.join("ptxas"));
        // As nvcc has it, nothing is said of the stack of functions that call themselves.
        command
            .args(["-c", "-v", "-w", &format!("-arch={gpu}")])
            .args(limited(least))
            .arg("-o")
            .args([&object, &source]);
        let process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        running.push((process.map_err(|error| format!("ptxas: {error}"))?, ptx));
        objects.push(object);
    }
    let mut all = Ok(());
    for (process, ptx) in running {
        let said = process.wait_with_output();
        all = all.and(said.map_err(|error| format!("ptxas: {error}")).and_then(|said| fits(&said, &ptx)));
    }
    let linked = all.and_then(|()| link(tools, gpu, &objects, output));
    for object in &objects {
        // An object that was not made is not there, and a file that stays is in the way of nobody.
        for file in [object.clone(), object.with_extension("ptx")] {
            let _ = fs::remove_file(file);
        }
    }
    linked
}

/// Whether ptxas took a part, and its kernels do with the stack that there is.
fn fits(said: &Output, ptx: &str) -> Result<(), String> {
    let words = String::from_utf8_lossy(&said.stderr);
    if !said.status.success() {
        let wrong = words.lines().find(|line| line.contains("error") || line.contains("fatal"));
        return Err(format!("ptxas -c: {}", wrong.unwrap_or("no reason given")));
    }
    match deepest(ptx, &frames(&words)) {
        deep if deep <= STACK_BYTES => Ok(()),
        deep => Err(format!("a kernel takes {deep} bytes of stack, more than {STACK_BYTES}")),
    }
}

fn link(tools: &Path, gpu: &str, objects: &[PathBuf], output: &Path) -> Result<(), String> {
    run(Command::new(tools.join("nvlink"))
        .args([&format!("-arch={gpu}"), "-w"])
        .args(objects)
        .arg("-o")
        .arg(output))
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().display().to_string();
    let said = command.output().map_err(|error| format!("{name}: {error}"))?;
    if said.status.success() {
        return Ok(());
    }
    let words = [&said.stderr, &said.stdout].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    Err(format!("{name}: {}", words.concat().trim_end()))
}

#[cfg(test)]
mod tests {
    use super::{assemble, linked};
    use crate::toolchain::cuda_tools;

    /// Two kernels, of which one has a limit, that call one function and count in one variable.
    const PROGRAM: &str = "\
.version 7.0
.target sm_70
.address_size 64
.global .align 4 .u32 COUNT = 7;
.func count()
{
\t.reg .u32 %before;
\tatom.global.add.u32 %before, [COUNT], 1;
\tret;
}
.visible .entry gpufs_kernel_one()
{
\tcall.uni count, ();
\tret;
}
.visible .entry gpufs_kernel_few()
.maxnreg 64
{
\tcall.uni count, ();
\tret;
}
";

    #[test]
    fn kernels_with_and_without_a_limit_are_one_program() {
        let Ok(tools) = cuda_tools() else {
            println!("SKIP: no ptxas and nvlink");
            return;
        };
        let folder = std::env::temp_dir().join(format!("gpufs-assemble-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let [ptx, image] = ["program.ptx", "program.cubin"].map(|name| folder.join(name));
        std::fs::write(&ptx, PROGRAM).expect("written");
        linked(&tools, &ptx, "sm_90", &image, None).expect("assembled");
        let bytes = std::fs::read(&image).expect("an image");
        let has = |name: &str| bytes.windows(name.len()).any(|found| found == name.as_bytes());
        assert!(has("gpufs_kernel_one") && has("gpufs_kernel_few"));
        let left: Vec<_> =
            std::fs::read_dir(&folder).expect("read").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
        std::fs::write(&ptx, PROGRAM.replace("atom.global", "atom.nowhere")).expect("written");
        let why = assemble(&ptx, "sm_90", &image, None).expect_err("not PTX");
        assert!(why.contains("nowhere"), "{why}");
        assert_eq!(std::fs::read_dir(&folder).expect("read").count(), 2, "a part was left");
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
