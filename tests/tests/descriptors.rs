//! Streams on descriptors and back: `fdopen`, `fileno`, `freopen`, `tmpfile`, `mkstemp`, `dup`, in every mode and by many lanes at once.
#![expect(unsafe_code, reason = "asks the C library of descriptors")]

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::io::Read;
use std::os::fd::OwnedFd;

use gpufs_core::stream::Stream;
use gpufs_device::file::{Descriptor, O_APPEND, O_CREAT, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY, Whence};
use gpufs_device::stdio::Buffering;
use gpufs_device::{Errno, fprintf};
use gpufs_host::{CpuOptions, Session};
use gpufs_tests::{MODES, Scratch, each, once, skip, small, tables, tables_of};

/// Sessions in all modes, of warps of 1 and 32 lanes.
fn sessions(test: &str, go: impl Fn(&mut Session)) {
    for mode in MODES {
        for width in [1, 32] {
            let options = CpuOptions { width, ..CpuOptions::default() };
            match small().mode(mode).cpu_with(options) {
                Ok(mut session) => go(&mut session),
                Err(refused) => skip(&format!("{test}, {mode}"), refused),
            }
        }
    }
}

#[test]
fn a_stream_begins_where_its_descriptor_stands() {
    let scratch = Scratch::new("fdopen");
    sessions("a_stream_begins_where_its_descriptor_stands", |session| {
        std::fs::write(scratch.path("file"), "0123456789").unwrap();
        let path = scratch.c("file");
        once(session, |fs| {
            let descriptor = fs.open(&path, O_RDWR, 0).unwrap();
            assert_eq!(fs.lseek(descriptor, 3, Whence::Set), Ok(3));
            let file = fs.fdopen(descriptor, c"r+").unwrap();
            assert_eq!(file.fileno(), Ok(descriptor));
            assert_eq!(file.ftell(), Ok(3));
            assert_eq!(file.fgetc(), Ok(Some(b'3')));
            // The descriptor gets the stream's position, not that of what was read ahead.
            file.fflush().unwrap();
            assert_eq!(fs.lseek(descriptor, 0, Whence::Current), Ok(4));
            file.fseek(6, Whence::Set).unwrap();
            assert_eq!(fs.lseek(descriptor, 0, Whence::Current), Ok(6));
            file.fputs(c"ab").unwrap();
            file.fflush().unwrap();
            assert_eq!(fs.lseek(descriptor, 0, Whence::Current), Ok(8));
            assert_eq!(fs.write(descriptor, b"c"), Ok(1));
            file.fclose().unwrap();
            assert_eq!(scratch.read("file"), b"012345abc9");
            // The end of the stream closed it, and nobody can have it again.
            assert_eq!(fs.read(descriptor, &mut [0]), Err(Errno::BADF));
            assert_eq!(file.fileno(), Err(Errno::BADF));
            assert_eq!(fs.close(descriptor), Err(Errno::BADF));
        });
    });
}

#[test]
fn a_mode_that_the_descriptor_has_not_is_refused() {
    let scratch = Scratch::new("fdopen-modes");
    sessions("a_mode_that_the_descriptor_has_not_is_refused", |session| {
        std::fs::write(scratch.path("file"), "text").unwrap();
        let path = scratch.c("file");
        once(session, |fs| {
            let modes = [c"r", c"w", c"a", c"r+", c"w+", c"a+"];
            for (flags, fit) in [(O_RDONLY, 0b00_0001), (O_WRONLY, 0b00_0110), (O_RDWR, 0b11_1111)] {
                for (at, mode) in modes.iter().enumerate() {
                    let descriptor = fs.open(&path, flags, 0).unwrap();
                    match fs.fdopen(descriptor, mode) {
                        Ok(file) => {
                            assert!(fit >> at & 1 != 0, "{mode:?} on {flags}");
                            let begins = if at == 2 { 4 } else { 0 };
                            assert_eq!(file.ftell(), Ok(begins), "{mode:?}: \"w\" does not truncate");
                            file.fclose().unwrap();
                        }
                        Err(errno) => {
                            assert!(errno == Errno::INVAL && fit >> at & 1 == 0, "{mode:?} on {flags}");
                            // It is as it was.
                            fs.close(descriptor).unwrap();
                        }
                    }
                }
            }
            let descriptor = fs.open(&path, O_RDWR, 0).unwrap();
            assert_eq!(fs.fdopen(descriptor, c"q").unwrap_err(), Errno::INVAL);
            assert_eq!(fs.fdopen(descriptor, c"").unwrap_err(), Errno::INVAL);
            fs.close(descriptor).unwrap();
            for wrong in [descriptor, Descriptor(1 << 20), Descriptor(u32::MAX)] {
                assert_eq!(fs.fdopen(wrong, c"r").unwrap_err(), Errno::BADF);
            }
            assert_eq!(fs.stdout().fileno(), Ok(Descriptor(1)));
        });
        assert_eq!(scratch.read("file"), b"text");
    });
}

#[test]
fn appending_streams_write_at_the_end_whoever_else_does() {
    let scratch = Scratch::new("fdopen-append");
    sessions("appending_streams_write_at_the_end_whoever_else_does", |session| {
        std::fs::write(scratch.path("log"), "begin\n").unwrap();
        let path = scratch.c("log");
        each(session, 8, |fs, lane| {
            // Not opened with O_APPEND: fdopen sets it.
            let flags = if lane % 2 == 0 { O_RDWR } else { O_WRONLY | O_APPEND };
            let descriptor = fs.open(&path, flags, 0).unwrap();
            let file = fs.fdopen(descriptor, if lane % 4 == 0 { c"a+" } else { c"a" }).unwrap();
            for line in 0..20 {
                assert_eq!(file.fseek(0, Whence::Set), Ok(()));
                fprintf!(file, c"%lu %d\n", lane, line).unwrap();
                file.fflush().unwrap();
            }
            assert_eq!(fs.write(descriptor, b"by the descriptor\n"), Ok(18));
            file.fclose().unwrap();
        });
        let text = String::from_utf8(scratch.read("log")).unwrap();
        let lines: BTreeSet<&str> = text.lines().collect();
        assert_eq!((text.lines().count(), text.lines().next()), (1 + 8 * 21, Some("begin")));
        assert_eq!(lines.len(), 2 + 8 * 20, "{text}");
    });
}

#[test]
fn a_stream_on_a_pipe_that_the_host_gave() {
    sessions("a_stream_on_a_pipe_that_the_host_gave", |session| {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let descriptor = session.register_file(OwnedFd::from(writer)).unwrap();
        once(session, |fs| {
            let file = fs.fdopen(descriptor, c"w").unwrap();
            assert_eq!(file.ftell(), Err(Errno::SPIPE));
            fprintf!(file, c"%s", c"through the pipe").unwrap();
            file.fclose().unwrap();
        });
        session.unregister_file(descriptor).unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through the pipe");
    });
}

#[test]
fn the_end_of_a_stream_that_the_host_opened_on_a_descriptor_closes_it() {
    sessions("the_end_of_a_stream_that_the_host_opened_on_a_descriptor_closes_it", |session| {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let refused = session.fdopen(OwnedFd::from(reader.try_clone().unwrap()), "w").unwrap_err();
        assert_eq!(refused.errno(), Errno::INVAL);
        let file = session.fdopen(OwnedFd::from(writer), "w").unwrap();
        session.fclose(file).unwrap();
        assert_eq!(reader.read_to_end(&mut Vec::new()).unwrap(), 0, "nobody has the other end any more");
        assert_eq!(session.fclose(file).unwrap_err().errno(), Errno::BADF);
    });
}

#[test]
fn freopen_keeps_the_stream_and_its_number() {
    let scratch = Scratch::new("freopen");
    sessions("freopen_keeps_the_stream_and_its_number", |session| {
        let (first, second) = (scratch.c("first"), scratch.c("second"));
        let lines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
        let file = once(session, |fs| fs.fopen(&first, c"w").unwrap());
        let number = once(session, |_| file.fileno().unwrap());
        // So much that the stream has grown.
        each(session, 64, |_, lane| {
            (0..100).for_each(|line| _ = fprintf!(file, c"%lu %d\n", lane, line).unwrap());
        });
        once(session, |fs| {
            assert_eq!(file.freopen(Some(&second), c"w").unwrap().fileno(), Ok(number));
            assert_eq!(file.setvbuf(Buffering::Line, 0), Ok(()));
            assert_eq!(fs.lseek(number, 0, Whence::Current), Ok(0));
        });
        assert_eq!(lines(&scratch.read("first")), 6400, "all that was buffered is in the first");
        each(session, 64, |_, lane| _ = fprintf!(file, c"%lu\n", lane).unwrap());
        once(session, |_| {
            // The same file, to be read.
            let file = file.freopen(None, c"r").unwrap();
            assert_eq!((file.feof(), file.ferror()), (false, false));
            let mut line = [0; 16];
            let mut count = 0;
            while file.fgets(&mut line).unwrap().is_some() {
                count += 1;
            }
            assert_eq!(count, 64);
            assert_eq!(file.fputc(b'x'), Err(Errno::BADF));
            // And to be appended to.
            let file = file.freopen(None, c"a").unwrap();
            file.fputs(c"end").unwrap();
            file.fclose().unwrap();
        });
        let text = scratch.read("second");
        assert!(lines(&text) == 64 && text.ends_with(b"\nend"));
    });
}

#[test]
fn a_freopen_that_fails_closes_the_stream() {
    let scratch = Scratch::new("freopen-fails");
    sessions("a_freopen_that_fails_closes_the_stream", |session| {
        let path = scratch.c("file");
        let missing = scratch.c("no/such");
        once(session, |fs| {
            // More often than there are streams and files.
            for round in 0..100 {
                let file = fs.fopen(&path, c"w").unwrap();
                file.fputs(c"kept").unwrap();
                let number = file.fileno().unwrap();
                let (path, mode): (&CStr, _) = if round % 2 == 0 { (&missing, c"r") } else { (&path, c"q") };
                let failed = file.freopen(Some(path), mode).unwrap_err();
                assert_eq!(failed, if round % 2 == 0 { Errno::NOENT } else { Errno::INVAL });
                assert_eq!(file.fputs(c"x"), Err(Errno::BADF));
                assert_eq!(fs.read(number, &mut [0]), Err(Errno::BADF), "its descriptor is closed, too");
                assert_eq!(file.freopen(None, c"w").unwrap_err(), Errno::BADF);
                assert_eq!(scratch.read("file"), b"kept");
            }
            let shared = fs.fopen_shared(&path, c"w").unwrap();
            assert_eq!(shared.freopen(None, c"w").unwrap_err(), Errno::BUSY);
            shared.fputs(c"open").unwrap();
            shared.fclose().unwrap();
            assert_eq!(scratch.read("file"), b"open");
        });
    });
}

#[test]
fn lanes_reopen_streams_of_their_own() {
    let scratch = Scratch::new("freopen-lanes");
    sessions("lanes_reopen_streams_of_their_own", |session| {
        each(session, 16, |fs, lane| {
            let names = [scratch.c(&format!("{lane}a")), scratch.c(&format!("{lane}b"))];
            let file = fs.fopen(&names[0], c"w").unwrap();
            file.fputs(c"one").unwrap();
            let file = file.freopen(Some(&names[1]), c"w").unwrap();
            file.fputs(c"two").unwrap();
            file.fclose().unwrap();
            assert_eq!(scratch.read(&format!("{lane}a")), b"one");
            assert_eq!(scratch.read(&format!("{lane}b")), b"two");
        });
    });
}

#[test]
fn every_lane_has_temporary_files_of_its_own() {
    let scratch = Scratch::new("temporary");
    sessions("every_lane_has_temporary_files_of_its_own", |session| {
        let names = each(session, 16, |fs, lane| {
            let file = match fs.tmpfile() {
                Ok(file) => file,
                Err(errno) => {
                    assert_eq!(errno, Errno::OPNOTSUPP);
                    println!("SKIP tmpfile: the file system of /tmp has no files without a name");
                    return None;
                }
            };
            fprintf!(file, c"lane %lu", lane).unwrap();
            file.rewind();
            let mut text = [0; 16];
            assert_eq!(file.fgets(&mut text).unwrap().unwrap().to_str(), Ok(format!("lane {lane}").as_str()));
            file.fclose().unwrap();

            let mut path = scratch.c("made-XXXXXX").into_bytes_with_nul();
            let made = fs.mkstemp(&mut path).unwrap();
            assert_eq!(fs.write(made, b"mine"), Ok(4));
            assert_eq!(fs.lseek(made, 0, Whence::Set), Ok(0));
            let mut back = [0; 8];
            assert_eq!((fs.read(made, &mut back), &back[..4]), (Ok(4), &b"mine"[..]));
            fs.close(made).unwrap();
            // A whole path, in six letters of which nothing is left.
            path.pop();
            assert!(!path.contains(&b'X') || std::fs::exists(std::str::from_utf8(&path).unwrap()).unwrap());
            Some(path)
        });
        let names: Vec<_> = names.into_iter().flatten().collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        for name in names {
            let path = std::str::from_utf8(&name).unwrap();
            assert_eq!(std::fs::read(path).unwrap(), b"mine");
            std::fs::remove_file(path).unwrap();
        }
        once(session, |fs| {
            for wrong in [&b"shortXXXXX\0"[..], b"XXXXX\0", b"\0", b"", b"no end XXXXXX", b"XXXXXXx\0"] {
                assert_eq!(fs.mkstemp(&mut wrong.to_vec()), Err(Errno::INVAL), "{wrong:?}");
            }
            let mut missing = *b"/nonexistent/XXXXXX\0";
            assert_eq!(fs.mkstemp(&mut missing), Err(Errno::NOENT));
            let made = fs.open(&scratch.c("again"), O_RDWR | O_CREAT | O_TRUNC, 0o600).unwrap();
            fs.close(made).unwrap();
            // Files without a name are none that a program gets which is put in this one's place.
            let Ok(file) = fs.tmpfile() else { return };
            let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| {
                let entry = entry.ok()?;
                let target = std::fs::read_link(entry.path()).ok()?;
                let number = entry.file_name().to_string_lossy().parse::<i32>().ok()?;
                target.to_string_lossy().starts_with("/tmp/#").then_some(number)
            });
            // SAFETY:
            // - no memory is involved
            let flags: Vec<_> =
                descriptors.map(|number| unsafe { libc::fcntl(number, libc::F_GETFD) }).collect();
            // Another test's may be among them, and closed by now.
            assert!(flags.contains(&libc::FD_CLOEXEC) && !flags.contains(&0), "{flags:?}");
            file.fclose().unwrap();
        });
    });
}

#[test]
fn lanes_duplicate_descriptors_each_for_itself() {
    let scratch = Scratch::new("duplicates");
    sessions("lanes_duplicate_descriptors_each_for_itself", |session| {
        let numbers = each(session, 16, |fs, lane| {
            let path = scratch.c(&format!("own{lane}"));
            let first = fs.open(&path, O_RDWR | O_CREAT | O_TRUNC, 0o600).unwrap();
            assert_eq!(fs.write(first, b"0123456789"), Ok(10));
            assert_eq!(fs.lseek(first, 3, Whence::Set), Ok(3));
            let second = fs.dup(first).unwrap();
            // A position of its own, which begins where the other is.
            let mut two = [0; 2];
            assert_eq!((fs.read(second, &mut two), &two), (Ok(2), b"34"));
            assert_eq!(fs.lseek(first, 0, Whence::Current), Ok(3));
            fs.close(first).unwrap();
            assert_eq!(fs.lseek(second, 0, Whence::Current), Ok(5));
            // A number that is open, one that was closed just now unless another lane has it, and one beyond the table.
            let other = scratch.c(&format!("other{lane}"));
            let third = fs.open(&other, O_RDWR | O_CREAT | O_TRUNC, 0o600).unwrap();
            assert_eq!(fs.dup2(second, third), Ok(third));
            assert_eq!((fs.read(third, &mut two), &two), (Ok(2), b"56"));
            assert_eq!(fs.dup3(third, second, 0), Ok(second));
            assert_eq!(fs.lseek(second, 0, Whence::Current), Ok(7));
            assert_eq!(fs.dup2(second, Descriptor(u32::MAX)), Err(Errno::BADF));
            assert_eq!(fs.dup3(second, second, 0), Err(Errno::INVAL));
            assert_eq!(fs.dup3(second, third, O_APPEND), Err(Errno::INVAL));
            (second, third)
        });
        let each_once: BTreeSet<_> = numbers.iter().flat_map(|(one, other)| [one.0, other.0]).collect();
        assert_eq!(each_once.len(), 32, "each lane has two numbers of its own");
        each(session, 16, |fs, lane| {
            let (one, other) = numbers[usize::try_from(lane).unwrap()];
            fs.close(one).unwrap();
            fs.close(other).unwrap();
            assert_eq!(fs.dup(one), Err(Errno::BADF));
            assert_eq!(fs.dup2(one, other), Err(Errno::BADF));
        });
        // A number that nobody has.
        once(session, |fs| {
            let file = fs.open(&scratch.c("own0"), O_RDONLY, 0).unwrap();
            let free = numbers.iter().map(|(one, _)| *one).find(|one| *one != file).unwrap();
            assert_eq!(fs.dup2(file, free), Ok(free));
            fs.close(file).unwrap();
            fs.close(free).unwrap();
        });
    });
}

#[test]
fn what_is_said_of_an_error_goes_where_the_standard_error_leads() {
    let scratch = Scratch::new("perror");
    sessions("what_is_said_of_an_error_goes_where_the_standard_error_leads", |session| {
        let path = scratch.c("said");
        once(session, |fs| {
            let standard = fs.stderr().fileno().unwrap();
            let saved = fs.dup(standard).unwrap();
            let file = fs.open(&path, O_WRONLY | O_CREAT | O_TRUNC, 0o600).unwrap();
            assert_eq!(fs.dup2(file, standard), Ok(standard));
            fs.perror(c"opening", Errno::NOENT).unwrap();
            fs.perror(c"", Errno::NOSPC).unwrap();
            assert_eq!(fs.dup2(saved, standard), Ok(standard));
            fs.close(saved).unwrap();
            fs.close(file).unwrap();
        });
        assert_eq!(scratch.read("said"), b"opening: No such file or directory\nNo space left on device\n");
    });
}

/// The host's file is its own to close; the copy is the kernel's, which reads and closes it by its own number.
#[test]
fn a_copy_of_a_file_of_the_hosts_is_the_kernels_own() {
    let scratch = Scratch::new("copy-of-hosts");
    std::fs::write(scratch.path("file"), "0123456789").unwrap();
    let open = || {
        let numbers = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        numbers
            .filter(|number| std::fs::read_link(number.path()).is_ok_and(|to| to == scratch.path("file")))
            .count()
    };
    sessions("a_copy_of_a_file_of_the_hosts_is_the_kernels_own", |session| {
        let file = session.register_file(std::fs::File::open(scratch.path("file")).unwrap()).unwrap();
        let before = open();
        let copy = once(session, |fs| {
            let copy = fs.dup(file).unwrap();
            let mut four = [0; 4];
            assert_eq!((fs.read(copy, &mut four), &four), (Ok(4), b"0123"));
            copy
        });
        assert_eq!(open(), before + 1);
        once(session, |fs| fs.close(copy).unwrap());
        assert_eq!(open(), before);
        session.unregister_file(file).unwrap();
    });
}

/// What would be closed after a fault: a number that a kernel gave another file has that file's descriptor, and none where the file is the host's.
#[test]
fn the_journal_knows_what_was_given_a_number() {
    let scratch = Scratch::new("journal-exchange");
    let path = scratch.c("file");
    for mode in MODES {
        let Ok(mut session) = small().mode(mode).survives(true).cpu() else {
            skip("the_journal_knows_what_was_given_a_number", mode);
            continue;
        };
        let hosts = session.register_file(std::fs::File::open("/dev/null").unwrap()).unwrap();
        let [one, other] = once(&mut session, |fs| {
            let two = [(), ()].map(|()| fs.open(&path, O_RDWR | O_CREAT, 0o600).unwrap());
            assert_eq!(fs.dup2(two[0], two[1]), Ok(two[1]));
            assert_eq!(fs.dup2(two[0], hosts), Ok(hosts));
            two
        });
        let tables = tables(&session);
        for number in [one, other, hosts] {
            let descriptor = tables.files()[number.0 as usize].descriptor.peek().cast_signed();
            assert_eq!(tables.journal.opened(number.0), Some(descriptor), "{mode}: {number:?}");
        }
        once(&mut session, |fs| [one, other].map(|number| fs.close(number).unwrap()));
        for number in [one, other] {
            assert_eq!(tables.journal.opened(number.0), None, "{mode}: {number:?}");
        }
    }
}

/// Names come from the time: one lane gets a new one each time, of letters of the whole alphabet.
#[test]
fn a_lane_makes_many_files_with_new_names() {
    const FILES: usize = 300;
    let scratch = Scratch::new("names");
    let template = scratch.c("XXXXXX").into_bytes_with_nul();
    let mut session = small().cpu().expect("a session");
    let names = once(&mut session, |fs| {
        let mut names = BTreeSet::new();
        for _ in 0..FILES {
            let mut path = template.clone();
            let made = fs.mkstemp(&mut path).unwrap();
            fs.close(made).unwrap();
            path.pop();
            names.insert(path[path.len() - 6..].to_vec());
        }
        names
    });
    assert_eq!(names.len(), FILES);
    // Each of 36 about 50 times.
    let letters: Vec<u8> = names.into_iter().flatten().collect();
    for letter in (b'a'..=b'z').chain(b'0'..=b'9') {
        let count = letters.iter().filter(|found| **found == letter).count();
        assert!((14..105).contains(&count), "{} is there {count} times", char::from(letter));
    }
}

/// A stream that writes begins where its descriptor stands, unless it appends; where it appends, its descriptor stays where it was.
#[test]
fn an_appending_stream_leaves_its_descriptor() {
    let scratch = Scratch::new("fdopen-positions");
    let path = scratch.c("file");
    sessions("an_appending_stream_leaves_its_descriptor", |session| {
        for (mode, begins, behind) in [(c"w", 2, 5), (c"r+", 2, 5), (c"a", 10, 2), (c"w+", 2, 5)] {
            std::fs::write(scratch.path("file"), "0123456789").unwrap();
            once(session, |fs| {
                let descriptor = fs.open(&path, O_RDWR, 0).unwrap();
                assert_eq!(fs.lseek(descriptor, 2, Whence::Set), Ok(2));
                let file = fs.fdopen(descriptor, mode).unwrap();
                assert_eq!(file.ftell(), Ok(begins), "{mode:?}");
                file.fputs(c"abc").unwrap();
                assert_eq!(file.ftell(), Ok(begins + 3), "{mode:?}");
                file.fflush().unwrap();
                assert_eq!(fs.lseek(descriptor, 0, Whence::Current), Ok(behind), "{mode:?}");
                file.fclose().unwrap();
            });
            let wanted = if mode == c"a" { "0123456789abc" } else { "01abc56789" };
            assert_eq!(scratch.read("file"), wanted.as_bytes(), "{mode:?}");
        }
    });
}

/// What has no position has none in the session's tables either, whatever goes through it.
#[test]
fn a_pipe_has_no_position() {
    sessions("a_pipe_has_no_position", |session| {
        once(session, |fs| {
            let [from, to] = fs.pipe().unwrap();
            let (reader, writer) = (fs.fdopen(from, c"r").unwrap(), fs.fdopen(to, c"w").unwrap());
            writer.fputs(c"abc").unwrap();
            writer.fflush().unwrap();
            assert_eq!((reader.fgetc(), reader.ftell()), (Ok(Some(b'a')), Err(Errno::SPIPE)));
            reader.fflush().unwrap();
            // It leaves its writing.
            writer.setvbuf(Buffering::Line, 0).unwrap();
            assert_eq!(writer.ftell(), Err(Errno::SPIPE));
            let tables = tables_of(fs);
            for descriptor in [from, to] {
                assert_eq!(tables.files()[descriptor.0 as usize].position.peek(), 0);
            }
            let stands = |file: u32| {
                move |stream: &&Stream| stream.generation.peek() % 2 == 1 && stream.file.peek() == file
            };
            assert_eq!(
                tables.streams().iter().find(stands(to.0)).map(|stream| stream.position.peek()),
                Some(0)
            );
            assert_eq!((reader.fgetc(), writer.fclose(), reader.fclose()), (Ok(Some(b'b')), Ok(()), Ok(())));
        });
    });
}
