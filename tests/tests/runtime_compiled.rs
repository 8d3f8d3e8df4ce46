//! NVRTC, which has no headers of a C library, compiles kernels that use the headers: every header, in each standard.
#![expect(unsafe_code, reason = "calls NVRTC")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;

use gpufs_tests::skip;
use libloading::Library;

const KERNEL: &CStr = cr#"
#include <gpufs/stdio.h>
#include <gpufs/file.h>
#include <gpufs/stat.h>
#include <gpufs/dirent.h>
#include <gpufs/service.h>
#include <gpufs/socket.h>
#include <gpufs/pipe.h>
#include <gpufs/aio.h>
#include <gpufs/trace.h>

extern "C" __global__ void work(gpufs_session *session, gpufs_file *log, int descriptor, char *memory) {
    unsigned long thread = blockIdx.x * blockDim.x + threadIdx.x;
    long number;
    struct gpufs_stat about;
    auto printed = fprintf(log, "thread %lu saw %.3f %s\n", thread, thread / 3.0, "text");
    if (printed < 0 && printed.error() == ENOSPC) {
        return;
    }
    if (pread(session, descriptor, memory + 64 * thread, 64, 64 * thread) == 64 && stat(session, "x", &about) == 0) {
        fwrite(memory + 64 * thread, 1, 64, log);
    }
    fscanf(log, "%ld", &number);
    gpufs::Trace trace(session, "run.pftrace");
    auto step = trace.event("step");
    auto rows = trace.event("rows", "count");
    auto recorder = trace.recorder();
    recorder.begin(step);
    recorder.instant(rows, number);
    recorder.end();
}
"#;

/// NVRTC, loaded: of an installed CUDA, or of PyPI's `nvidia-cuda-nvrtc`.
fn nvrtc() -> Option<Library> {
    const FROM_PYPI: &str = "import glob, nvidia; print(*(path for base in nvidia.__path__ for path in glob.glob(base + '/*/lib/libnvrtc*.so.*')))";
    let python = Command::new("python3").args(["-c", FROM_PYPI]).output().ok();
    let listed =
        python.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let of_pypi: Vec<&str> = listed.split_whitespace().filter(|path| !path.contains(".alt.")).collect();
    // NVRTC looks for this one by its name: loaded before, it is found.
    for path in of_pypi.iter().filter(|path| path.contains("builtins")) {
        // SAFETY:
        // - NVIDIA's library, which does nothing when it is loaded; it stays loaded
        std::mem::forget(unsafe { Library::new(*path) });
    }
    let installed = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];
    let names = of_pypi.iter().copied().filter(|path| !path.contains("builtins")).chain(installed);
    // SAFETY:
    // - as above
    names.filter_map(|name| unsafe { Library::new(name) }.ok()).next()
}

/// Compiles the kernel: its PTX, or what NVRTC says.
fn compile(nvrtc: &Library, source: &CStr, options: &[CString]) -> Result<String, String> {
    type Create = unsafe extern "C" fn(
        *mut *mut c_void,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int;
    type Compile = unsafe extern "C" fn(*mut c_void, c_int, *const *const c_char) -> c_int;
    type Size = unsafe extern "C" fn(*mut c_void, *mut usize) -> c_int;
    type Text = unsafe extern "C" fn(*mut c_void, *mut c_char) -> c_int;
    /// A function of NVRTC's.
    ///
    /// # Safety
    /// `F` is its type, as nvrtc.h declares it.
    unsafe fn function<'a, F>(nvrtc: &'a Library, name: &CStr) -> libloading::Symbol<'a, F> {
        // SAFETY:
        // - this function's contract
        unsafe { nvrtc.get(name.to_bytes_with_nul()) }.expect("NVRTC has it")
    }
    let text = |program: *mut c_void, size: &CStr, get: &CStr| {
        let mut bytes = 0;
        // SAFETY:
        // - so nvrtc.h declares it
        let size = unsafe { function::<Size>(nvrtc, size) };
        // SAFETY:
        // - likewise
        let get = unsafe { function::<Text>(nvrtc, get) };
        // SAFETY:
        // - a program, and a number of this function's
        assert_eq!(unsafe { size(program, &raw mut bytes) }, 0);
        let mut text = vec![0_u8; bytes];
        // SAFETY:
        // - `text` has as many bytes as NVRTC says
        assert_eq!(unsafe { get(program, text.as_mut_ptr().cast()) }, 0);
        String::from_utf8_lossy(&text).into_owned()
    };
    let mut program = ptr::null_mut();
    let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    // SAFETY:
    // - so nvrtc.h declares it
    let create = unsafe { function::<Create>(nvrtc, c"nvrtcCreateProgram") };
    // SAFETY:
    // - likewise
    let compile = unsafe { function::<Compile>(nvrtc, c"nvrtcCompileProgram") };
    // SAFETY:
    // - strings that live until the call returns, and no headers
    let made = unsafe {
        create(&raw mut program, source.as_ptr(), c"kernel.cu".as_ptr(), 0, ptr::null(), ptr::null())
    };
    assert_eq!(made, 0);
    // SAFETY:
    // - a program, and as many strings, which live until the call returns
    let result = unsafe { compile(program, options.len() as c_int, options.as_ptr()) };
    if result == 0 {
        Ok(text(program, c"nvrtcGetPTXSize", c"nvrtcGetPTX"))
    } else {
        Err(text(program, c"nvrtcGetProgramLogSize", c"nvrtcGetProgramLog"))
    }
}

#[test]
fn nvrtc_reads_the_headers() {
    let Some(nvrtc) = nvrtc() else {
        return skip("nvrtc_reads_the_headers", "no NVRTC (CUDA, or 'pip install nvidia-cuda-nvrtc')");
    };
    let include: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../include");
    for standard in ["c++14", "c++17", "c++20"] {
        let options = [
            format!("-I{}", include.display()),
            "--gpu-architecture=compute_80".to_owned(),
            "-rdc=true".to_owned(),
            format!("--std={standard}"),
        ]
        .map(|option| CString::new(option).unwrap());
        let ptx = compile(&nvrtc, KERNEL, &options).unwrap_or_else(|log| panic!("{standard}: {log}"));
        assert!(ptx.contains(".entry work("), "{standard}");
        for call in [
            "gpufs_raw_fprintf",
            "gpufs_raw_pread",
            "gpufs_raw_stat",
            "gpufs_raw_fwrite",
            "gpufs_raw_fscanf",
            "gpufs_raw_trace_record",
            "globaltimer",
        ] {
            assert!(ptx.contains(call), "{standard}: {call}");
        }
        for header in ["host.h", "use.h", "drop_in.h"] {
            let source = CString::new(format!("#include <gpufs/{header}>\n")).unwrap();
            let log = compile(&nvrtc, &source, &options).expect_err(header);
            let first = log.lines().find(|line| line.contains("error")).unwrap_or_default();
            let is_said =
                first.contains(&format!("<gpufs/{header}> is for")) && first.contains("<gpufs/stdio.h>");
            assert!(is_said, "{standard}: {log}");
        }
    }
}
