//! What C11 and POSIX say of single calls, where the random sequences of the suite do not lead: each on every back end.
#![expect(unsafe_code, reason = "calls the C library")]

use std::ffi::{CStr, CString};
use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use gpufs_device::stdio::{Buffering, Whence};
use gpufs_device::{Errno, File};
use gpufs_host::{CpuOptions, Session};
use gpufs_tests::{MODES, Scratch, c_path, each, once, small, tables};

/// A session in each mode, and one of each width.
fn sessions() -> impl Iterator<Item = Session> {
    let modes = MODES.into_iter().map(|mode| (mode, 32));
    let widths = [1, 64].map(|width| (MODES[1], width));
    modes.chain(widths).map(|(mode, width)| {
        small().mode(mode).cpu_with(CpuOptions { width, ..CpuOptions::default() }).expect("a session")
    })
}

/// An unbuffered stream has no pieces: a long record is one write, whatever size is asked for.
#[test]
fn an_unbuffered_record_is_one_write() {
    let scratch = Scratch::new("unbuffered");
    let name = scratch.c("file");
    for mut session in sessions() {
        let file = once(&mut session, |fs| fs.fopen(&name, c"w").unwrap());
        once(&mut session, |_| file.setvbuf(Buffering::None, 16)).unwrap();
        let operations = |session: &Session| session.statistics().total().operations;
        let before = operations(&session);
        once(&mut session, |_| assert_eq!(file.fwrite(&[b'x'; 4000]), Ok(4000)));
        assert_eq!(operations(&session) - before, 1);
        once(&mut session, |_| file.fclose()).unwrap();
        assert_eq!(scratch.read("file"), [b'x'; 4000]);
    }
}

/// Lanes that call together with handles of streams that are closed, and with that of a stream which has the place of one of them by then: it
/// alone is written.
#[test]
fn handles_of_one_place_are_told_apart() {
    let scratch = Scratch::new("one-place");
    let name = scratch.c("file");
    for mut session in sessions() {
        // Of many more streams than there are places.
        let last = 20 * tables(&session).streams().len();
        let handles = once(&mut session, |fs| {
            (0..=last)
                .map(|number| {
                    let file = fs.fopen(&name, c"w").unwrap();
                    (number < last).then(|| file.fclose().unwrap());
                    file
                })
                .collect::<Vec<_>>()
        });
        let open = *handles.last().unwrap();
        for closed in handles[..handles.len() - 1].chunks(15) {
            let outcomes = each(&mut session, 2 * closed.len() as u32, |_, lane| {
                let lane = lane as usize;
                let file = if lane.is_multiple_of(2) { closed[lane / 2] } else { open };
                file.fwrite(b"record\n")
            });
            for (lane, outcome) in outcomes.into_iter().enumerate() {
                assert_eq!(outcome, if lane.is_multiple_of(2) { Err(Errno::BADF) } else { Ok(7) });
            }
        }
        once(&mut session, |_| open.fclose()).unwrap();
        assert_eq!(scratch.read("file"), b"record\n".repeat(handles.len() - 1));
    }
}

/// All that is left to be read.
fn rest(file: File) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(byte) = file.fgetc().expect("a byte or the end") {
        all.push(byte);
    }
    all
}

/// `setvbuf` at any time loses nothing: neither what was read ahead, from a file or a pipe, nor what was pushed back.
#[test]
fn setvbuf_keeps_what_is_to_be_read() {
    let scratch = Scratch::new("setvbuf");
    let path = scratch.path("file");
    fs::write(&path, b"0123456789".repeat(1000)).unwrap();
    for mut session in sessions() {
        for (buffering, bytes) in
            [(Buffering::Full, 16), (Buffering::Line, 64), (Buffering::None, 0), (Buffering::Full, 0)]
        {
            for pipe in [false, true] {
                let (reader, mut writer) = std::io::pipe().unwrap();
                let name = if pipe {
                    c_path(format!("/proc/self/fd/{}", reader.as_raw_fd()).as_ref())
                } else {
                    c_path(&path)
                };
                if pipe {
                    writer.write_all(&b"0123456789".repeat(1000)).unwrap();
                    drop(writer);
                }
                let what = format!("{buffering:?} {bytes} pipe: {pipe}");
                let (got, at) = once(&mut session, |fs| {
                    let file = fs.fopen(&name, c"r").unwrap();
                    assert_eq!((file.fgetc(), file.fgetc()), (Ok(Some(b'0')), Ok(Some(b'1'))));
                    file.ungetc(b'x').unwrap();
                    file.ungetc(b'y').unwrap();
                    file.setvbuf(buffering, bytes).unwrap();
                    let at = file.ftell();
                    file.setvbuf(Buffering::Full, 4096).unwrap();
                    let got = rest(file);
                    file.fclose().unwrap();
                    (got, at)
                });
                let wanted = [b"yx".to_vec(), b"0123456789".repeat(1000)[2..].to_vec()].concat();
                assert!(got == wanted, "{what}: {} bytes, {:?}…", got.len(), &got[..8]);
                assert_eq!(at, if pipe { Err(Errno::SPIPE) } else { Ok(0) }, "{what}");
            }
        }
    }
}

/// The end of a file is met once: what others append later is read after `clearerr` or a move, and not before (C11 7.21.7.1).
#[test]
fn the_end_of_a_file_is_sticky() {
    let scratch = Scratch::new("sticky");
    let path = scratch.path("file");
    let name = c_path(&path);
    for mut session in sessions() {
        for unbuffered in [false, true] {
            fs::write(&path, "ab").unwrap();
            let append = |text: &str| {
                fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(text.as_bytes()).unwrap();
            };
            once(&mut session, |fs| {
                let file = fs.fopen(&name, c"r").unwrap();
                if unbuffered {
                    file.setvbuf(Buffering::None, 0).unwrap();
                }
                assert_eq!((rest(file), file.feof()), (b"ab".to_vec(), true));
                append("cd\n");
                let mut memory = [0; 8];
                assert_eq!((file.fgetc(), file.fread(&mut memory)), (Ok(None), Ok(0)));
                assert_eq!(
                    (file.fgets(&mut memory).map(|line| line.is_some()), file.feof()),
                    (Ok(false), true)
                );
                file.clearerr();
                assert_eq!((file.fgetc(), rest(file)), (Ok(Some(b'c')), b"d\n".to_vec()));
                append("ef");
                assert_eq!(file.fgetc(), Ok(None));
                file.fseek(0, Whence::Current).unwrap();
                assert_eq!(rest(file), b"ef");
                file.fclose().unwrap();
            });
        }
    }
}

/// What `fopen` makes of a mode: nothing, or whether it reads, writes, appends, and has cut the file.
fn system_opens(path: &CStr, mode: &CStr) -> Result<i32, i32> {
    // SAFETY:
    // - two strings that end; the stream is open until it is closed
    unsafe {
        let file = libc::fopen(path.as_ptr(), mode.as_ptr());
        if file.is_null() {
            return Err(*libc::__errno_location());
        }
        let flags = libc::fcntl(libc::fileno(file), libc::F_GETFL) & (libc::O_ACCMODE | libc::O_APPEND);
        libc::fclose(file);
        Ok(flags)
    }
}

/// Modes with letters that C11 does not have are taken as glibc takes them.
#[test]
fn modes_are_glibcs() {
    let scratch = Scratch::new("modes");
    let path = scratch.path("file");
    let name = c_path(&path);
    let mut modes: Vec<CString> = Vec::new();
    for first in ["", "r", "w", "a", "x", "+", "R", " r", "t", ",r"] {
        for rest in [
            "", "t", "e", "m", "c", "b", "rb", "w", "+", "t+", "b+t", "te+", "x", "+x", " +", "\n", "\u{e9}",
            "1+", "mcetb+",
        ] {
            modes.push(CString::new(format!("{first}{rest}")).unwrap());
        }
    }
    modes.push(c"rb,ccs=UTF-8".to_owned());
    modes.push(c"w+,ccs=UTF-8".to_owned());
    modes.push(c"a+te,ccs=ISO-8859-1".to_owned());
    let mut session = small().cpu().unwrap();
    for mode in modes {
        fs::write(&path, "content").unwrap();
        let wanted = system_opens(&name, &mode);
        let left = fs::read(&path).unwrap();
        fs::write(&path, "content").unwrap();
        let got = once(&mut session, |fs| {
            let opened = fs.fopen(&name, &mode).map_err(Errno::number);
            opened.map(|file| {
                // What it may do says how it was opened.
                let reads = file.fgetc() != Err(Errno::BADF);
                file.clearerr();
                let _ = file.fseek(0, Whence::Set);
                let writes = file.fputc(b'#').is_ok();
                let _ = file.fflush();
                let appends = writes && file.ftell().unwrap() != 1;
                file.fclose().unwrap();
                let access = match (reads, writes) {
                    (true, false) => libc::O_RDONLY,
                    (false, _) => libc::O_WRONLY,
                    (true, true) => libc::O_RDWR,
                };
                access | if appends { libc::O_APPEND } else { 0 }
            })
        });
        assert_eq!(got, wanted, "{mode:?}");
        let cut = |content: &[u8]| content.len() < 7;
        assert_eq!(cut(&fs::read(&path).unwrap()), cut(&left), "{mode:?}");
    }
}
/// What a write-behind met is known before the next bytes are taken: a block of 4,096 bytes is started when it is full, and no byte behind it is
/// taken once its write has failed.
#[test]
fn an_error_of_write_behind_shuts_the_stream() {
    for mut session in sessions() {
        let taken = once(&mut session, |fs| {
            let full = fs.fopen(c"/dev/full", c"w").unwrap();
            let mut taken = 0;
            while full.fwrite(&[b'x'; 64]).is_ok() {
                taken += 64;
                // The write that may be in flight ends meanwhile, and is delivered.
                thread::sleep(Duration::from_millis(1));
                assert_eq!(fs.nop(), Ok(()));
                assert!(taken < 1 << 20, "no write has failed");
            }
            assert!(full.ferror());
            assert_eq!(full.fclose(), Err(Errno::NOSPC));
            taken
        });
        assert_eq!(taken, 4096);
    }
}

/// What could not be written is dropped with its stream, and its memory is there for others: of a full block, of a part of one, and of more blocks
/// than a stream has at first.
#[test]
fn streams_that_failed_leave_their_memory() {
    let scratch = Scratch::new("failed-memory");
    let path = scratch.c("good");
    for mut session in sessions() {
        once(&mut session, |fs| {
            for round in 0..200 {
                let full = fs.fopen(c"/dev/full", c"w").unwrap();
                let bytes = [100, 4096, 5000, 30_000][round % 4];
                let written = full.fwrite(&vec![b'x'; bytes]).and_then(|_| full.fflush());
                assert_eq!(written, Err(Errno::NOSPC));
                assert_eq!(full.fclose(), Err(Errno::NOSPC));
                let good = fs.fopen(&path, c"w").unwrap();
                assert_eq!(good.fwrite(&vec![b'y'; bytes]), Ok(bytes));
                assert_eq!(good.fclose(), Ok(()));
                assert_eq!(fs.stat(&path).map(|stat| stat.st_size), Ok(bytes as i64), "round {round}");
            }
        });
        assert_eq!(scratch.read("good"), vec![b'y'; 30_000]);
    }
}

/// A handle of a stream that was closed has the number of a later one: lanes that use both in one call do not meet.
#[test]
fn a_closed_handle_takes_no_part_in_calls_of_its_successor() {
    let scratch = Scratch::new("successor");
    let path = scratch.c("file");
    fs::write(scratch.path("file"), "line\n".repeat(9)).unwrap();
    for mut session in sessions() {
        let closed = once(&mut session, |fs| {
            let file = fs.fopen(&path, c"r").unwrap();
            file.fclose().unwrap();
            file
        });
        // All that are free, one of which has its place.
        let open =
            once(&mut session, |fs| (0..).map_while(|_| fs.fopen(&path, c"r").ok()).collect::<Vec<_>>());
        assert_eq!(open.len(), 29);
        for file in open {
            for first in 0..2 {
                let got = each(&mut session, 2, |_, lane| {
                    let (mut line, file) = ([0; 8], if lane == first { closed } else { file });
                    file.fgets(&mut line).map(|line| line.map(CStr::to_bytes).map(<[u8]>::to_vec))
                });
                let expected = [Ok(Some(b"line\n".to_vec())), Err(Errno::BADF)];
                assert_eq!(
                    got,
                    if first == 0 { [expected[1].clone(), expected[0].clone()] } else { expected }
                );
            }
            once(&mut session, |_| {
                while file.fgets(&mut [0; 8]).unwrap().is_some() {}
                assert_eq!(closed.fgets(&mut [0; 8]), Err(Errno::BADF), "nor in its end");
                file.fclose().unwrap();
            });
        }
    }
}

/// More lines than a block has room for the ends of.
#[test]
fn empty_lines_are_lines_however_many() {
    let scratch = Scratch::new("empty-lines");
    fs::write(scratch.path("file"), "\n".repeat(20_000)).unwrap();
    let builder = small().rings(2).ring_entries(512).buffers(2 << 20).read_ahead(128 << 10);
    let mut session = builder.mode(MODES[1]).cpu().expect("a session");
    let file = once(&mut session, |fs| fs.fopen(&scratch.c("file"), c"r").unwrap());
    let taken = each(&mut session, 64, |_, _| {
        let mut taken = 0;
        while let Some(line) = file.fgets(&mut [0; 8]).unwrap() {
            assert_eq!(line, c"\n");
            taken += 1;
        }
        taken
    });
    assert_eq!(taken.iter().sum::<u32>(), 20_000);
}

/// Lanes that close streams of their own ask the system once, together.
#[test]
fn lanes_close_their_streams_as_one_batch() {
    let scratch = Scratch::new("batch");
    for mut session in [32, 64].map(|width| {
        let options = CpuOptions { width, ..CpuOptions::default() };
        small().mode(MODES[1]).cpu_with(options).expect("a session")
    }) {
        let open = |fs: gpufs_device::Fs, lane| fs.fopen(&scratch.c(&format!("file{lane}")), c"w").unwrap();
        let files = each(&mut session, 16, open);
        let before = session.statistics().total();
        each(&mut session, 16, |_, lane| files[lane as usize].fclose().unwrap());
        let after = session.statistics().total();
        assert_eq!(after.operations - before.operations, 16);
        assert_eq!(after.publications - before.publications, 1);
    }
}

/// A stream goes on in another file as it was buffered.
#[test]
fn dup2_keeps_how_a_stream_is_buffered() {
    let scratch = Scratch::new("dup2-buffering");
    let paths = ["one", "other"].map(|name| scratch.c(name));
    for mut session in sessions() {
        for buffering in [Buffering::None, Buffering::Full] {
            once(&mut session, |fs| {
                let [file, other] = paths.each_ref().map(|path| fs.fopen(path, c"w").unwrap());
                file.setvbuf(buffering, if buffering == Buffering::Full { 4096 } else { 0 }).unwrap();
                let number = file.fileno().unwrap();
                assert_eq!(fs.dup2(other.fileno().unwrap(), number), Ok(number));
                file.fputs(c"text").unwrap();
                let seen = scratch.read("other");
                assert_eq!(seen, if buffering == Buffering::None { &b"text"[..] } else { b"" });
                file.fclose().unwrap();
                other.fclose().unwrap();
            });
        }
    }
}

/// What a stream had accepted is in its file before `dup2` makes it another, in which the stream goes on where that stands. Streams beside it stay.
#[test]
fn dup2_moves_the_stream_that_is_on_the_number() {
    let scratch = Scratch::new("dup2-stream");
    let other = scratch.c("other");
    for mut session in sessions() {
        fs::write(scratch.path("other"), "0123456789").unwrap();
        once(&mut session, |fs| {
            let files = ["first", "moved", "last"].map(|name| fs.fopen(&scratch.c(name), c"w").unwrap());
            files.iter().for_each(|file| file.fputs(c"before").unwrap());
            let new = fs.open(&other, gpufs_device::file::O_WRONLY, 0).unwrap();
            assert_eq!(fs.lseek(new, 4, Whence::Set), Ok(4));
            let number = files[1].fileno().unwrap();
            assert_eq!(fs.dup2(new, number), Ok(number));
            assert_eq!(scratch.read("moved"), b"before");
            files.iter().for_each(|file| file.fputs(c", now").unwrap());
            files.iter().for_each(|file| file.fclose().unwrap());
            fs.close(new).unwrap();
        });
        let left = ["first", "moved", "last", "other"].map(|name| scratch.read(name));
        let wanted: [&[u8]; 4] = [b"before, now", b"before", b"before, now", b"0123, now9"];
        assert_eq!(left, wanted);
    }
}

/// What of a stream's file is told by its mode alone: where it begins, whether it closes on `execve`, and that nothing counts behind a comma.
#[test]
fn a_mode_says_where_a_stream_begins() {
    let scratch = Scratch::new("begins");
    let path = scratch.path("file");
    let name = c_path(&path);
    // Descriptors of the process on the file, and whether they close.
    let closes = || -> Vec<bool> {
        let all = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
        let here = all.filter(|link| fs::read_link(link).is_ok_and(|target| target == path));
        let number = |link: std::path::PathBuf| link.file_name().unwrap().to_string_lossy().parse().unwrap();
        // SAFETY:
        // - no memory is involved
        here.map(|link| unsafe { libc::fcntl(number(link), libc::F_GETFD) } == libc::FD_CLOEXEC).collect()
    };
    let mut session = small().cpu().unwrap();
    for (mode, begins, first, closed) in [
        (c"r", 0, Ok(Some(b'0')), false),
        (c"r+", 0, Ok(Some(b'0')), false),
        (c"re", 0, Ok(Some(b'0')), true),
        (c"r,+e", 0, Ok(Some(b'0')), false),
        (c"a", 10, Err(Errno::BADF), false),
        (c"ae", 10, Err(Errno::BADF), true),
        (c"a+", 0, Ok(Some(b'0')), false),
        (c"w", 0, Err(Errno::BADF), false),
        (c"w+", 0, Ok(None), false),
    ] {
        fs::write(&path, "0123456789").unwrap();
        let file = once(&mut session, |fs| fs.fopen(&name, mode).unwrap());
        assert_eq!(closes(), [closed], "{mode:?}");
        once(&mut session, |_| {
            assert_eq!(file.ftell(), Ok(begins), "{mode:?}");
            assert_eq!(file.fgetc(), first, "{mode:?}");
            if mode == c"r,+e" {
                assert_eq!(file.fputc(b'x'), Err(Errno::BADF));
            }
            let _ = file.fclose();
        });
    }
}

/// What was pushed back goes to lanes in their order, and so does what follows it in the file; an error is of those that got less.
#[test]
fn lanes_share_what_was_pushed_back() {
    let scratch = Scratch::new("pushed-lanes");
    fs::write(scratch.path("file"), "0123456789").unwrap();
    for mut session in sessions().skip(1).take(2) {
        let push = |session: &mut Session, path: &CStr, bytes: &[u8]| {
            once(session, |fs| {
                let file = fs.fopen(path, c"r").unwrap();
                bytes.iter().for_each(|byte| assert_eq!(file.ungetc(*byte), Ok(Some(*byte))));
                file
            })
        };
        let file = push(&mut session, &scratch.c("file"), b"edcba");
        let got = each(&mut session, 5, |_, lane| {
            let mut memory = [b'#'; 4];
            let wanted = [2, 2, 3, 0, 4][lane as usize];
            assert_eq!(file.fread(&mut memory[..wanted]), Ok(wanted));
            memory
        });
        assert_eq!(got, [*b"ab##", *b"cd##", *b"e01#", *b"####", *b"2345"]);
        let directory = push(&mut session, &c_path(scratch.dir()), b"ba");
        let got = each(&mut session, 4, |_, _| {
            let mut memory = [b'#'; 1];
            let read = directory.fread_counted(&mut memory);
            (read.bytes, read.error, memory[0])
        });
        let failed = (0, Some(Errno::ISDIR), b'#');
        assert_eq!(got, [(1, None, b'a'), (1, None, b'b'), failed, failed]);
        once(&mut session, |_| assert_eq!((file.fclose(), directory.fclose()), (Ok(()), Ok(()))));
    }
}

/// Streams of two files that lanes of a warp name in the same call are apart, and so is what two lanes do on one.
#[test]
fn lanes_name_streams_of_their_own_in_one_call() {
    let scratch = Scratch::new("apart");
    for mut session in sessions() {
        let results = each(&mut session, 8, |fs, lane| {
            let name = scratch.c(&format!("{lane}"));
            let file = fs.fopen(&name, c"w+").unwrap();
            let bytes = vec![b'a' + lane as u8; lane as usize + 1];
            assert_eq!(file.fwrite(&bytes), Ok(bytes.len()));
            assert_eq!(file.ftell(), Ok(lane + 1));
            file.fflush().unwrap();
            assert_eq!(fs.stat(&name).map(|stat| stat.st_size), Ok(lane as i64 + 1));
            file.rewind();
            assert_eq!((file.fgetc(), file.ftell()), (Ok(Some(b'a' + lane as u8)), Ok(1)));
            file.clearerr();
            file.fclose()
        });
        assert_eq!(results, vec![Ok(()); results.len()]);
    }
}

/// An unbuffered stream reads no more than it is asked for: what follows is its descriptor's.
#[test]
fn an_unbuffered_stream_reads_what_it_is_asked_for() {
    for mut session in sessions() {
        for (buffering, left) in
            [(Buffering::None, &b"3456789"[..]), (Buffering::Line, b""), (Buffering::Full, b"")]
        {
            once(&mut session, |fs| {
                let [from, to] = fs.pipe().unwrap();
                assert_eq!(fs.write(to, b"0123456789"), Ok(10));
                fs.close(to).unwrap();
                let file = fs.fdopen(from, c"r").unwrap();
                file.setvbuf(buffering, 0).unwrap();
                let mut memory = [0; 16];
                file.ungetc(b'x').unwrap();
                assert_eq!((file.fread(&mut memory[..4]), &memory[..4]), (Ok(4), &b"x012"[..]));
                let read = fs.read(from, &mut memory).unwrap();
                assert_eq!(&memory[..read], left, "{buffering:?}");
                assert_eq!(file.fclose(), Ok(()));
            });
        }
    }
}

/// `fflush(NULL)` says what one stream met, wherever it stands among the others, and writes the others.
#[test]
fn flushing_all_streams_says_what_one_met() {
    let scratch = Scratch::new("all-streams");
    for mut session in sessions() {
        once(&mut session, |fs| {
            let files = [scratch.c("0"), c"/dev/full".to_owned(), scratch.c("1")];
            let files = files.map(|name| fs.fopen(&name, c"w").unwrap());
            for file in files {
                assert_eq!(file.fputc(b'x'), Ok(b'x'));
            }
            assert_eq!(fs.fflush_all(), Err(Errno::NOSPC));
            assert_eq!([scratch.read("0"), scratch.read("1")], [b"x", b"x"]);
            assert_eq!(files.map(File::fclose), [Ok(()), Err(Errno::NOSPC), Ok(())]);
            assert_eq!(fs.fflush_all(), Ok(()));
        });
    }
}

/// `rewind` clears what `ferror` and `feof` say, and `fseek` the end of the file alone.
#[test]
fn rewinding_clears_an_error() {
    let scratch = Scratch::new("rewind");
    fs::write(scratch.path("file"), "ab").unwrap();
    let mut session = small().cpu().unwrap();
    once(&mut session, |fs| {
        let file = fs.fopen(&scratch.c("file"), c"r").unwrap();
        assert_eq!((file.fputc(b'x'), rest(file)), (Err(Errno::BADF), b"ab".to_vec()));
        assert_eq!((file.ferror(), file.feof()), (true, true));
        file.fseek(1, Whence::Set).unwrap();
        assert_eq!((file.ferror(), file.feof(), rest(file)), (true, false, b"b".to_vec()));
        file.rewind();
        assert_eq!((file.ferror(), file.feof(), rest(file)), (false, false, b"ab".to_vec()));
        file.fclose().unwrap();
    });
}
