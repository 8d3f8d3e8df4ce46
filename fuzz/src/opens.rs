//! Modes and paths of `fopen`, as C gives them.
#![expect(unsafe_code, reason = "calls C's functions, with strings that end where memory ends")]

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fs;

use gpufs_device::{Errno, Fs};
use gpufs_device_c::stdio::{gpufs_raw_fclose, gpufs_raw_fopen};
use gpufs_device_c::{MODE_BYTES, PATH_BYTES};
use gpufs_host::Session;
use gpufs_host::ring::Mode;
use gpufs_tests::{Scratch, lanes, small};

use crate::bytes::Bytes;

/// Opens what the bytes name.
///
/// # Panics
/// Where a call says other than the system.
pub fn opens(data: &[u8]) {
    thread_local!(static STAGE: RefCell<Option<Stage>> = const { RefCell::new(None) });
    STAGE.with(|stage| stage.borrow_mut().get_or_insert_with(Stage::new).open(Bytes::new(data)));
}

struct Stage {
    session: Session,
    scratch: Scratch,
    path: Guarded,
    mode: Guarded,
}

impl Stage {
    fn new() -> Self {
        let session = small().mode(Mode::Threads).report_failures(false).cpu().expect("a session on threads");
        Self { session, scratch: Scratch::new("fuzz-opens"), path: Guarded::new(), mode: Guarded::new() }
    }

    fn open(&mut self, mut bytes: Bytes<'_>) {
        let (shape, longer) = (bytes.byte(), bytes.half() % 4400);
        let mode_bytes = bytes.below(MODE_BYTES + 8);
        let mut mode = until_nul(bytes.take(mode_bytes));
        let mut name = until_nul(bytes.rest());
        // Nothing outside of the folder, and nothing with a name of its own in it.
        name.iter_mut().filter(|byte| **byte == b'/').for_each(|byte| *byte = b'_');
        if shape & 1 != 0 {
            name.resize(name.len().max(longer.into()), b'n');
        }
        if shape & 2 != 0 {
            name.iter_mut().skip(200).step_by(200).for_each(|byte| *byte = b'/');
        }
        if shape & 4 != 0 {
            mode.resize(MODE_BYTES, b'b');
        }
        let mut path = self.scratch.dir().as_os_str().as_encoded_bytes().to_vec();
        path.push(b'/');
        path.extend(&name);
        let is_cut = path.len() >= PATH_BYTES;
        path.truncate(PATH_BYTES);
        // What is as long as the bound has no NUL: nothing lies behind it.
        let c_path = self.path.put(&path, PATH_BYTES);
        let c_mode = self.mode.put(&mode, MODE_BYTES);

        let expected = if mode.len() >= MODE_BYTES && is_cut {
            None
        } else if is_cut {
            Some(Err(Errno::NAMETOOLONG))
        } else if mode.len() >= MODE_BYTES {
            Some(Err(Errno::INVAL))
        } else if mode.len() > 6 || mode.contains(&b',') {
            // glibc reads six letters, and character sets.
            None
        } else {
            Some(system(&path, &mode))
        };
        self.remove_all();
        let mut got = Err(Errno::IO);
        let (sent, answer) = ((c_path as usize, c_mode as usize), std::sync::Mutex::new(&mut got));
        self.session
            .run(lanes(1), |fs| {
                **answer.lock().expect("one lane") = open_and_close(fs, sent);
            })
            .expect("one lane");
        self.remove_all();
        if let Some(expected) = expected {
            assert_eq!(
                got,
                expected,
                "{:?} {:?}",
                String::from_utf8_lossy(&path),
                String::from_utf8_lossy(&mode)
            );
        }
    }

    /// Empties the folder.
    fn remove_all(&self) {
        for entry in fs::read_dir(self.scratch.dir()).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The bytes before the first NUL.
fn until_nul(bytes: &[u8]) -> Vec<u8> {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
}

fn system(path: &[u8], mode: &[u8]) -> Result<(), Errno> {
    let (path, mode) = (CString::new(path).expect("no NUL"), CString::new(mode).expect("no NUL"));
    // SAFETY:
    // - two strings that end
    let file = unsafe { libc::fopen(path.as_ptr(), mode.as_ptr()) };
    if file.is_null() {
        let number = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        return Err(Errno::from_number(number));
    }
    // SAFETY:
    // - opened above
    unsafe { libc::fclose(file) };
    Ok(())
}

/// Memory with a page behind it that cannot be read.
struct Guarded(*mut u8);

impl Guarded {
    const BYTES: usize = 8192;
    const GUARD: usize = 4096;

    fn new() -> Self {
        let (read, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY:
        // - new memory, anywhere
        let memory =
            unsafe { libc::mmap(std::ptr::null_mut(), Self::BYTES + Self::GUARD, read, private, -1, 0) };
        assert_ne!(memory, libc::MAP_FAILED, "no memory");
        let memory: *mut u8 = memory.cast();
        // SAFETY:
        // - within the memory, which nothing uses yet
        let guard = unsafe { memory.add(Self::BYTES) };
        // SAFETY:
        // - the last page of the memory, which nothing uses yet
        assert_eq!(unsafe { libc::mprotect(guard.cast(), Self::GUARD, libc::PROT_NONE) }, 0);
        Self(memory)
    }

    /// Puts a string so that it ends with the memory: with a NUL, or where it has `bound` bytes, without.
    fn put(&mut self, text: &[u8], bound: usize) -> *const c_char {
        let nul = usize::from(text.len() < bound);
        // SAFETY:
        // - no longer than the memory: the bounds are below it
        let start = unsafe { self.0.add(Self::BYTES - text.len() - nul) };
        // SAFETY:
        // - the string's place, up to the guard
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), start, text.len()) };
        if nul == 1 {
            // SAFETY:
            // - the last byte before the guard
            unsafe { self.0.wrapping_add(Self::BYTES - 1).write(0) };
        }
        start.cast_const().cast()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY:
        // - mapped so, once
        unsafe { libc::munmap(self.0.cast(), Self::BYTES + Self::GUARD) };
    }
}

/// Opens a stream, by the addresses of a path and a mode, and closes it.
fn open_and_close(fs: Fs, sent: (usize, usize)) -> Result<(), Errno> {
    // SAFETY:
    // - the session is open while its kernel runs
    let tables = unsafe { fs.tables() };
    // SAFETY:
    // - the session's tables; strings that end, or are as long as the bounds
    match unsafe { gpufs_raw_fopen(tables, sent.0 as *const c_char, sent.1 as *const c_char) } {
        errno @ -4095..0 => Err(Errno::from_number(-i32::try_from(errno).unwrap_or(0))),
        // SAFETY:
        // - the stream that was just opened
        file => match unsafe { gpufs_raw_fclose(file as *const std::ffi::c_void) } {
            0 => Ok(()),
            _ => Err(Errno::IO),
        },
    }
}
