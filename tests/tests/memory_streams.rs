//! Streams on memory, `fmemopen` and `open_memstream`, in Rust, in every mode; in C they are beside the C library's own (`tests/c/memory_streams.c`).
#![expect(unsafe_code, reason = "lends memory to streams")]

use std::ffi::CStr;

use gpufs_device::stdio::{MemoryText, Whence};
use gpufs_device::{Errno, File, Fs};
use gpufs_host::Session;
use gpufs_tests::{MODES, each, once, skip, small};

fn sessions(test: &str, go: impl Fn(&mut Session)) {
    for mode in MODES {
        match small().mode(mode).cpu() {
            Ok(mut session) => go(&mut session),
            Err(refused) => skip(&format!("{test}, {mode}"), refused),
        }
    }
}

fn on(fs: Fs, memory: &mut [u8], mode: &CStr) -> File {
    // SAFETY:
    // - the caller looks at the memory between the stream's calls alone, and closes the stream before it goes
    unsafe { fs.fmemopen(memory.as_mut_ptr(), memory.len(), mode) }.unwrap()
}

/// What a stream holds, and where it stands.
fn held(file: File) -> (Vec<u8>, u64) {
    let mut into = vec![b'#'; 100];
    let MemoryText { bytes, position } = file.memory_text(&mut into).unwrap();
    assert_eq!(into[bytes], 0);
    into.truncate(bytes);
    (into, position)
}

#[test]
fn memory_has_what_was_flushed() {
    sessions("memory_has_what_was_flushed", |session| {
        once(session, |fs| {
            let mut memory = *b"0123456789";
            let file = on(fs, &mut memory, c"w");
            file.fputs(c"ab").unwrap();
            assert_eq!(memory, *b"0123456789");
            file.fflush().unwrap();
            assert_eq!(memory, *b"ab\x003456789");
            file.fputs(c"cd").unwrap();
            file.fseek(1, Whence::Set).unwrap();
            assert_eq!(memory, *b"abcd\x0056789");
            file.fputc(b'x').unwrap();
            assert_eq!(
                (file.fseek(11, Whence::Set), file.fseek(10, Whence::Set)),
                (Err(Errno::INVAL), Ok(()))
            );
            assert_eq!((memory, file.ftell()), (*b"axcd\x0056789", Ok(10)));
            assert_eq!(file.fseek(1, Whence::Current), Err(Errno::INVAL));
            file.fputc(b'y').unwrap();
            assert_eq!(file.fclose(), Err(Errno::NOSPC));
        });
    });
}

/// What memory holds is read, from its start; what is written goes where the stream stands, or to the end if it appends.
#[test]
fn memory_is_read_and_written_as_its_mode_says() {
    sessions("memory_is_read_and_written_as_its_mode_says", |session| {
        // The mode; where the stream stands at first; the byte there; what the memory is after an `x` was written at the second place.
        for (mode, begins, first, after) in [
            (c"r", 0, Ok(Some(b'0')), *b"012\x004567"),
            (c"r+", 0, Ok(Some(b'0')), *b"0x2\x004567"),
            (c"w+", 0, Ok(None), *b"\0x\x00\x004567"),
            (c"w", 0, Err(Errno::BADF), *b"\0x\x00\x004567"),
            (c"a", 3, Err(Errno::BADF), *b"012x\x00567"),
            (c"a+", 3, Ok(None), *b"012x\x00567"),
        ] {
            once(session, |fs| {
                let mut memory = *b"012\x004567";
                let file = on(fs, &mut memory, mode);
                assert_eq!((file.ftell(), file.fgetc()), (Ok(begins), first), "{mode:?}");
                file.clearerr();
                file.fseek(1, Whence::Set).unwrap();
                let written = file.fputc(b'x');
                assert_eq!(written, if mode == c"r" { Err(Errno::BADF) } else { Ok(b'x') }, "{mode:?}");
                file.fclose().unwrap();
                assert_eq!(memory, after, "{mode:?}");
            });
        }
        // More than one transfer carries, and more than a lane's.
        let read = each(session, 4, |fs, lane| {
            let mut memory = vec![b'a' + lane as u8; 100_000 + lane as usize];
            let file = on(fs, &mut memory, c"r+");
            let mut into = vec![0; 200_000];
            let count = file.fread(&mut into).unwrap();
            file.fputs(c"end").unwrap();
            (file.fclose(), count == memory.len() && into[..count] == memory)
        });
        assert_eq!(read, [(Err(Errno::NOSPC), true); 4]);
    });
}

#[test]
fn text_grows() {
    sessions("text_grows", |session| {
        once(session, |fs| {
            let file = fs.open_memstream().unwrap();
            assert_eq!(held(file), (b"".to_vec(), 0));
            file.fputs(c"hello").unwrap();
            assert_eq!(held(file), (b"hello".to_vec(), 5));
            assert_eq!((file.fgetc(), file.fileno()), (Err(Errno::BADF), Err(Errno::BADF)));
            file.fseek(7, Whence::Set).unwrap();
            file.fputc(b'!').unwrap();
            assert_eq!(held(file), (b"hello\0\0!".to_vec(), 8));
            file.fseek(-8, Whence::End).unwrap();
            file.fputc(b'J').unwrap();
            assert_eq!(held(file), (b"Jello\0\0!".to_vec(), 1));
            // Where there is no room nothing is put.
            let mut into = [b'#'; 8];
            assert_eq!(file.memory_text(&mut into), Ok(MemoryText { bytes: 8, position: 1 }));
            assert_eq!(into, [b'#'; 8]);
            assert_eq!((file.fclose(), file.memory_text(&mut into)), (Ok(()), Err(Errno::BADF)));
        });
    });
}

/// Who flushes a stream on memory need not be who opened it.
#[test]
fn memory_has_what_another_lane_flushed() {
    sessions("memory_has_what_another_lane_flushed", |session| {
        let mut memory = *b"0123456789";
        let address = memory.as_mut_ptr().expose_provenance();
        // SAFETY:
        // - the memory outlives the stream, and is looked at when that is closed
        let open = |fs: Fs| unsafe { fs.fmemopen(std::ptr::with_exposed_provenance_mut(address), 10, c"w") };
        let file = once(session, |fs| open(fs).unwrap());
        each(session, 2, |_, lane| {
            if lane == 1 {
                file.fputs(c"ab").unwrap();
                file.fflush().unwrap();
            }
        });
        once(session, |_| file.fclose()).unwrap();
        // SAFETY:
        // - nobody writes it any more
        let memory = unsafe { std::ptr::with_exposed_provenance::<[u8; 10]>(address).read() };
        assert_eq!(memory, *b"ab\x003456789");
    });
}
