//! cuFile (NVIDIA's GPUDirect Storage): `libcufile.so.0`, loaded when it is first wanted, and reads into device memory with it.
//!
//! The declarations follow `cufile.h` of the Python package `nvidia-cufile` 1.15.1. Where the kernel module nvidia-fs is missing, cuFile works
//! in what it calls compatibility mode: `pread` into memory of the host, and a copy.
#![expect(unsafe_code, reason = "a C interface, loaded at run time")]

use std::error::Error as _;
use std::ffi::{c_int, c_long, c_uint, c_void};
use std::fs::{self, File};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::ptr;

use libloading::Library;
use serde_json::json;

use crate::cpu::{Means, Mover};
use crate::failure::Failure;
use crate::gpu::{DeviceBytes, Gpu, said};
use crate::scratch::{Scratch, both_ways, in_memory};

/// The library's file.
const NAME: &str = "libcufile.so.0";
/// Where it lies when it is installed, besides the loader's own places.
const USUAL: [&str; 3] =
    ["/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib", "/usr/lib/x86_64-linux-gnu"];
/// Where cuFile finds its settings, and where it leaves its log, whatever they say.
const SETTINGS: &str = "CUFILE_ENV_PATH_JSON";
const LOG: &str = "CUFILE_LOGFILE_PATH";
/// What the kernel module nvidia-fs shows of itself while it is loaded.
const MODULE: &str = "/proc/driver/nvidia-fs";

/// `CUfileError_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Status {
    /// `CUfileOpError`: 0, or 5001 and up.
    error: c_uint,
    /// `CUresult`, where `error` is 5011.
    cuda: c_int,
}

/// `CUfileDescr_t`.
#[repr(C)]
struct Description {
    /// `enum CUfileFileHandleType`.
    kind: c_uint,
    handle: Numbered,
    operations: *const c_void,
}

/// The union in `CUfileDescr_t`.
#[repr(C)]
union Numbered {
    descriptor: c_int,
    pointer: *mut c_void,
}

const _: () = {
    assert!(size_of::<Status>() == 8 && std::mem::offset_of!(Status, cuda) == 4);
    assert!(size_of::<Description>() == 24);
    assert!(std::mem::offset_of!(Description, handle) == 8);
    assert!(std::mem::offset_of!(Description, operations) == 16);
};

/// `CU_FILE_HANDLE_TYPE_OPAQUE_FD`.
const OPAQUE_FD: c_uint = 1;
/// `CU_FILE_CUDA_DRIVER_ERROR`.
const CUDA_ERROR: c_uint = 5011;

/// What an error's number means (`CUFILEOP_STATUS_ENTRIES`): those that a machine without nvidia-fs may show.
fn meaning(error: c_uint) -> &'static str {
    match error {
        5001 => "nvidia-fs is not loaded, and compatibility mode is not allowed",
        5007 => "not supported on this platform",
        5008 => "not supported on this file",
        5009 => "not supported on this GPU",
        5010 => "the driver nvidia-fs failed",
        CUDA_ERROR => "the CUDA driver failed",
        5018 => "unsupported file type",
        5019 => "unsupported flags of the open file",
        5020 => "direct I/O is not set on the file",
        5022 => "invalid arguments",
        5025 => "permission denied",
        5027 => "the file is not registered",
        5029 => "the GPU was not found",
        5030 => "internal error",
        5033 => "it could not be initialized; what it printed says why",
        _ => "see cufile.h",
    }
}

impl Status {
    fn check(self, call: &str) -> Result<(), Failure> {
        let Self { error, cuda } = self;
        match error {
            0 => Ok(()),
            CUDA_ERROR => Err(format!("{call}: error {error} ({}), CUresult {cuda}", meaning(error)).into()),
            _ => Err(format!("{call}: error {error} ({})", meaning(error)).into()),
        }
    }
}

/// `CUfileHandle_t`.
type Handle = *mut c_void;

/// The functions that are used.
#[derive(Clone, Copy)]
struct Calls {
    driver_open: unsafe extern "C" fn() -> Status,
    driver_close: unsafe extern "C" fn() -> Status,
    handle_register: unsafe extern "C" fn(*mut Handle, *mut Description) -> Status,
    handle_deregister: unsafe extern "C" fn(Handle),
    buffer_register: unsafe extern "C" fn(*const c_void, usize, c_int) -> Status,
    buffer_deregister: unsafe extern "C" fn(*const c_void) -> Status,
    /// Handle, buffer, bytes, offset in the file, offset in the buffer.
    read: unsafe extern "C" fn(Handle, *mut c_void, usize, c_long, c_long) -> isize,
}

/// The library, with its driver open.
pub(crate) struct CuFile {
    calls: Calls,
    /// Never unloaded: it has threads of its own.
    _library: ManuallyDrop<Library>,
}

/// Leaves settings for cuFile where it will look for them: compatibility mode is allowed, and it writes no log into the current directory.
/// Without nvidia-fs that mode is forced: cuFile otherwise asks udev what disk a file is on, and refuses it where udev does not answer, as
/// in a container without `/run/udev`. A user's own settings are kept. What is returned holds the settings and the log.
///
/// # Safety
/// No other thread runs.
pub(crate) unsafe fn prepare(directory: &Path) -> Result<Scratch, Failure> {
    let scratch = Scratch::new(directory, "cufile")?;
    let forced = !Path::new(MODULE).exists();
    let settings = json!({
        "logging": { "dir": scratch.path(""), "level": "ERROR" },
        "properties": { "allow_compat_mode": true, "force_compat_mode": forced, "force_odirect_mode": false },
    });
    let (path, log) = (scratch.path("cufile.json"), scratch.path("cufile.log"));
    fs::write(&path, serde_json::to_string_pretty(&settings)?)?;
    let truth = if forced { "true" } else { "false" };
    for (name, value) in [
        (SETTINGS, path.as_os_str()),
        (LOG, log.as_os_str()),
        ("CUFILE_LOGGING_LEVEL", "ERROR".as_ref()),
        ("CUFILE_ALLOW_COMPAT_MODE", "true".as_ref()),
        ("CUFILE_FORCE_COMPAT_MODE", truth.as_ref()),
    ] {
        if std::env::var_os(name).is_none() {
            // SAFETY:
            // - no other thread runs, by this function's contract
            unsafe { std::env::set_var(name, value) };
        }
    }
    Ok(scratch)
}

/// The last errors in a log of cuFile's, without time and thread; each once.
fn errors_in(log: &str) -> Vec<&str> {
    let said = log.lines().filter_map(|line| Some(line[line.find(" ERROR ")? + 7..].trim()));
    let mut last: Vec<&str> = Vec::new();
    for error in said {
        last.retain(|known| *known != error);
        last.push(error);
    }
    last.split_off(last.len().saturating_sub(4))
}

/// What cuFile's log says went wrong last, as far as it says anything: to go on a reason.
pub(crate) fn logged() -> String {
    let log = std::env::var_os(LOG).map(fs::read).and_then(Result::ok).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let errors = errors_in(&log);
    if errors.is_empty() { String::new() } else { format!("; its log: {}", errors.join("; ")) }
}

/// Where the library may be: what the user says, and nothing else; or the loader's places, beside this program, the usual ones.
fn places(chosen: Option<&Path>) -> Vec<PathBuf> {
    if let Some(path) = chosen {
        return vec![if path.is_dir() { path.join(NAME) } else { path.to_owned() }];
    }
    let own = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.join(NAME)));
    let usual = USUAL.iter().map(|directory| Path::new(directory).join(NAME));
    std::iter::once(PathBuf::from(NAME)).chain(own).chain(usual).collect()
}

impl CuFile {
    /// Loads it and opens its driver. The GPU's context is the calling thread's.
    pub(crate) fn open(chosen: Option<&Path>) -> Result<Self, Failure> {
        let mut why: Option<String> = None;
        for place in places(chosen) {
            // SAFETY:
            // - a library with that name is NVIDIA's, whose initializers may run in any program
            match unsafe { Library::new(&place) } {
                Ok(library) => return Self::with(library),
                Err(error) => {
                    // The loader's own words; of several, those about a file that is there.
                    let text = error.source().map_or_else(|| error.to_string(), ToString::to_string);
                    if why.is_none() || place.is_file() {
                        why = Some(text);
                    }
                }
            }
        }
        Err(format!(
            "{NAME} could not be loaded ({}): put the files of the Python package nvidia-cufile (nvidia/cu13/lib/*) beside this program, \
             or say --cufile FILE",
            why.unwrap_or_default()
        )
        .into())
    }

    fn with(library: Library) -> Result<Self, Failure> {
        macro_rules! call {
            ($name:literal) => {{
                // SAFETY:
                // - the function of that name is declared in cufile.h as the field that this goes to is
                *unsafe { library.get($name) }.map_err(|error| format!("{NAME} has no {}: {error}", $name))?
            }};
        }
        let calls = Calls {
            driver_open: call!("cuFileDriverOpen"),
            driver_close: call!("cuFileDriverClose_v2"),
            handle_register: call!("cuFileHandleRegister"),
            handle_deregister: call!("cuFileHandleDeregister"),
            buffer_register: call!("cuFileBufRegister"),
            buffer_deregister: call!("cuFileBufDeregister"),
            read: call!("cuFileRead"),
        };
        let library = ManuallyDrop::new(library);
        // SAFETY:
        // - as declared
        unsafe { (calls.driver_open)() }
            .check("cuFileDriverOpen")
            .map_err(|error| format!("{error}{}", logged()))?;
        Ok(Self { calls, _library: library })
    }

    /// Makes device memory known to it, for reads to go there.
    fn register(&self, memory: &DeviceBytes, bytes: usize) -> Result<(), Failure> {
        let memory: *const c_void = ptr::without_provenance(usize::try_from(memory.address())?);
        // SAFETY:
        // - device memory of that length, which stays until it is taken back
        unsafe { (self.calls.buffer_register)(memory, bytes, 0) }.check("cuFileBufRegister")
    }
}

impl Drop for CuFile {
    fn drop(&mut self) {
        // SAFETY:
        // - opened in `with`; every handle and buffer was taken back, since what holds one borrows this
        let _ = unsafe { (self.calls.driver_close)() };
    }
}

/// A file that is read with cuFile.
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    /// Where it is not the file that was asked for: where it lies.
    pub(crate) instead: Option<&'static str>,
    /// What holds it then.
    _scratch: Option<Scratch>,
}

impl Place {
    /// The file at `path` if cuFile takes it, or one as long in memory.
    pub(crate) fn find(library: &CuFile, gpu: &Gpu, path: &Path, span: u64) -> Result<Self, String> {
        let taken = |path: &Path| Reading::open(library, gpu, path, Reading::TRIAL).map(drop);
        let mut refused = match taken(path) {
            Ok(()) => return Ok(Self { path: path.to_owned(), instead: None, _scratch: None }),
            Err(error) => format!("{}: {error}", path.display()),
        };
        if let Some(memory) = in_memory() {
            let tried = Scratch::new(memory, "cufile").and_then(|scratch| {
                let path = scratch.filled("read", span)?;
                taken(&path).map(|()| Self { path, instead: Some("tmpfs"), _scratch: Some(scratch) })
            });
            match tried {
                Ok(place) => return Ok(place),
                Err(error) => refused = format!("{refused}; on tmpfs: {error}"),
            }
        }
        Err(refused)
    }
}

/// Means: `cuFileRead` into device memory, each thread into its own, of one file.
pub(crate) struct Reading<'a> {
    library: &'a CuFile,
    gpu: &'a Gpu,
    handle: Handle,
    /// The file that the handle stands for.
    file: File,
    /// Why buffers are not registered, if so.
    unregistered: Option<String>,
}

// SAFETY:
// - cuFile's calls may be made from any thread ("All APIs are thread-safe", its reference guide), and the handle is only passed to them
unsafe impl Sync for Reading<'_> {}

impl<'a> Reading<'a> {
    /// Bytes that show whether a file can be read at all.
    const TRIAL: u64 = 4096;

    /// For threads that read `bytes` at a time. The file's first are read, and held against what `pread` gives.
    pub(crate) fn open(library: &'a CuFile, gpu: &'a Gpu, path: &Path, bytes: u64) -> Result<Self, Failure> {
        Self::register(library, gpu, path)
            .and_then(|reading| reading.tried(usize::try_from(bytes)?))
            .map_err(|error| format!("{error}{}", logged()).into())
    }
    fn register(library: &'a CuFile, gpu: &'a Gpu, path: &Path) -> Result<Self, Failure> {
        let file = both_ways(path)?;
        let (mut handle, operations) = (ptr::null_mut(), ptr::null());
        let mut description =
            Description { kind: OPAQUE_FD, handle: Numbered { pointer: ptr::null_mut() }, operations };
        description.handle.descriptor = file.as_raw_fd();
        // SAFETY:
        // - both are valid, and laid out as cufile.h has them; the descriptor stays open as long as the handle
        unsafe { (library.calls.handle_register)(&raw mut handle, &raw mut description) }
            .check("cuFileHandleRegister")?;
        Ok(Self { library, gpu, handle, file, unregistered: None })
    }
    /// Whether it takes buffers, and reads what is there.
    fn tried(mut self, bytes: usize) -> Result<Self, Failure> {
        let memory = DeviceBytes::allocate(Some(self.gpu), bytes)?;
        let mut buffer = Buffer { library: self.library, memory, registered: false };
        match self.library.register(&buffer.memory, bytes) {
            Ok(()) => buffer.registered = true,
            Err(error) => self.unregistered = Some(error.to_string()),
        }
        let mut reader = Reader { reading: &self, buffer, bytes };
        let (mut here, mut there) = (vec![0; bytes], vec![0; bytes]);
        // Waits for the memory to have been filled, which cuFile does not.
        reader.buffer.memory.copy_to(&mut there)?;
        reader.read(&self.file, 0)?;
        reader.buffer.memory.copy_to(&mut there)?;
        self.file.read_exact_at(&mut here, 0)?;
        if here != there {
            return Err("cuFileRead: the bytes are not the file's".into());
        }
        drop(reader);
        Ok(self)
    }
    /// What its figures' name goes on with.
    pub(crate) fn note(&self) -> String {
        self.unregistered
            .as_ref()
            .map_or_else(String::new, |reason| format!(", without registered buffers: {reason}"))
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        // SAFETY:
        // - registered in `open`; no thread reads any more, since each borrows this
        unsafe { (self.library.calls.handle_deregister)(self.handle) };
    }
}

/// One thread's device memory.
struct Buffer<'a> {
    library: &'a CuFile,
    memory: DeviceBytes,
    registered: bool,
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        if self.registered {
            let memory: *const c_void =
                ptr::without_provenance(usize::try_from(self.memory.address()).unwrap_or(0));
            // SAFETY:
            // - registered with that address, and not freed yet
            let _ = unsafe { (self.library.calls.buffer_deregister)(memory) };
        }
    }
}

/// One thread's reads.
struct Reader<'a> {
    reading: &'a Reading<'a>,
    buffer: Buffer<'a>,
    bytes: usize,
}

impl Means for Reading<'_> {
    fn mover(&self, bytes: usize) -> io::Result<Box<dyn Mover + '_>> {
        self.gpu.bind().map_err(said)?;
        let memory = DeviceBytes::allocate(Some(self.gpu), bytes).map_err(said)?;
        let mut buffer = Buffer { library: self.library, memory, registered: false };
        if self.unregistered.is_none() {
            self.library.register(&buffer.memory, bytes).map_err(said)?;
            buffer.registered = true;
        }
        Ok(Box::new(Reader { reading: self, buffer, bytes }))
    }
}

impl Mover for Reader<'_> {
    /// Of the file that the handle was made for.
    fn read(&mut self, _file: &File, offset: u64) -> io::Result<()> {
        let memory = usize::try_from(self.buffer.memory.address()).map_err(said)?;
        let offset = c_long::try_from(offset).map_err(said)?;
        let read = self.reading.library.calls.read;
        // SAFETY:
        // - a handle that is registered, and device memory of that length, this thread's alone
        let count =
            unsafe { read(self.reading.handle, ptr::without_provenance_mut(memory), self.bytes, offset, 0) };
        match usize::try_from(count) {
            Ok(count) if count == self.bytes => Ok(()),
            Ok(count) => Err(said(format!("cuFileRead: {count} bytes of {}", self.bytes))),
            // An error of the system.
            Err(_) if count == -1 => Err(said(format!("cuFileRead: {}", io::Error::last_os_error()))),
            Err(_) => {
                let error = c_uint::try_from(count.unsigned_abs()).unwrap_or(c_uint::MAX);
                Err(said(format!("cuFileRead: error {error} ({})", meaning(error))))
            }
        }
    }
    fn write(&mut self, _file: &File, _offset: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_last_errors_of_a_log_are_said_once() {
        let log = " 01-02-2026 03:04:05:678 [pid=1 tid=1] ERROR  a:1 first\n 01-02 [pid=1 tid=1] NOTICE  b:2 no error\n\
             01-02 [pid=1 tid=2] ERROR  c:3 second\n 01-02 [pid=1 tid=2] ERROR  a:1 first\n";
        assert_eq!(errors_in(log), ["c:3 second", "a:1 first"]);
        let many: String = (0..9).map(|number| format!("x ERROR  e:{number}\n")).collect();
        assert_eq!(errors_in(&many), ["e:5", "e:6", "e:7", "e:8"]);
        assert!(errors_in("").is_empty());
    }

    use std::path::Path;

    use super::{CuFile, errors_in};

    #[test]
    fn a_library_that_is_missing_is_named_with_what_to_do() {
        let Err(error) = CuFile::open(Some(Path::new("/nowhere/libcufile.so.0"))) else {
            panic!("there is none");
        };
        let said = error.to_string();
        assert!(said.contains("/nowhere/libcufile.so.0") && said.contains("nvidia-cufile"), "{said}");
    }
}
