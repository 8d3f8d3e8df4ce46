//! Standard streams that were redirected: positions are those of the open file description, which the program shares with its shell, its
//! host and its children (C11 7.21.9, POSIX 2.5.1). Programs are run through `gpufs` and through the C library, and compared.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use gpufs_core::seek::SeekRequest;
use gpufs_core::session::OpenFile;
use gpufs_core::word::DeviceWord;
use gpufs_device::file::Whence;
use gpufs_device::{Errno, Fs};
use gpufs_tests::random::text;
use gpufs_tests::{MODES, Scratch, each, once, setting, skip, small, tables};

const PROGRAM: &str = env!("CARGO_BIN_EXE_standard_streams");
const SIDES: [&str; 3] = ["enter", "threads", "sqpoll"];

/// The program, with a file for its report.
fn program(side: &str, report: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", PROGRAM, side]).arg(report).args(arguments);
    command
}

fn run(mut command: Command, what: &str) {
    let output = command.stderr(Stdio::piped()).output().expect("the program starts");
    assert!(output.status.success(), "{what}: {} {}", output.status, String::from_utf8_lossy(&output.stderr));
}

/// How the standard output is redirected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Out {
    /// `> file`
    Truncated,
    /// `>> file`
    Appending,
    /// `1<> file`, behind what another program wrote there.
    Within,
}

/// What a run leaves: the report, where the shared descriptors stand, and the output.
#[derive(PartialEq, Eq)]
struct Left {
    report: String,
    input_at: u64,
    output_at: u64,
    output: Vec<u8>,
}

fn redirected(scratch: &Scratch, side: &str, out: Out, salt: u64, arguments: &[&str]) -> Left {
    let (input, output, report) = (scratch.path("in"), scratch.path("out"), scratch.path("report"));
    fs::write(&input, text(salt, usize::try_from(salt % 20_000).unwrap())).unwrap();
    fs::write(&output, "written by another program before\n".repeat(20)).unwrap();
    let mut input = File::open(input).unwrap();
    let mut output_file = match out {
        Out::Truncated => File::create(&output).unwrap(),
        Out::Appending => OpenOptions::new().append(true).open(&output).unwrap(),
        Out::Within => OpenOptions::new().read(true).write(true).open(&output).unwrap(),
    };
    // What the shell and the programs before have read and written.
    input.seek(SeekFrom::Start(salt % 700)).unwrap();
    if out == Out::Within {
        output_file.seek(SeekFrom::Start(salt % 900)).unwrap();
    }
    let mut command = program(side, &report, arguments);
    command.stdin(input.try_clone().unwrap()).stdout(output_file.try_clone().unwrap());
    run(command, &format!("{side} {out:?} {arguments:?}"));
    Left {
        report: fs::read_to_string(report).unwrap(),
        input_at: input.stream_position().unwrap(),
        output_at: output_file.stream_position().unwrap(),
        output: fs::read(output).unwrap(),
    }
}

/// Random calls on redirected standard streams, with kernels that end and the program's own output in between: every result, the positions
/// left behind, and the output are those of the C library.
#[test]
fn redirected_streams_are_the_c_librarys() {
    let scratch = Scratch::new("standard");
    let first = setting("GPUFS_SEED", 0);
    let mut failures = 0;
    for seed in first..first + setting("GPUFS_SEQUENCES", 150) {
        let out = [Out::Truncated, Out::Appending, Out::Within][usize::try_from(seed % 3).unwrap()];
        let append = if out == Out::Appending { "append" } else { "other" };
        let number = seed.to_string();
        let arguments = ["random", &number, append];
        let salt = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let wanted = redirected(&scratch, "system", out, salt, &arguments);
        let side = if seed % 16 == 0 { "sqpoll" } else { SIDES[usize::try_from(seed / 3 % 2).unwrap()] };
        let got = redirected(&scratch, side, out, salt, &arguments);
        if got == wanted {
            continue;
        }
        failures += 1;
        println!("seed {seed}, {side}, {out:?}:");
        let differs = wanted.report.lines().zip(got.report.lines()).position(|(wanted, got)| wanted != got);
        for (at, (wanted, got)) in wanted.report.lines().zip(got.report.lines()).enumerate() {
            if differs.is_none_or(|first| at <= first) {
                println!("  {wanted}{}", if wanted == got { "" } else { "\n  but here" });
                if wanted != got {
                    println!("  {got}");
                }
            }
        }
        println!(
            "  left: input at {} (wanted {}), output at {} (wanted {}), {} bytes of output (wanted {}), the same: {}",
            got.input_at,
            wanted.input_at,
            got.output_at,
            wanted.output_at,
            got.output.len(),
            wanted.output.len(),
            got.output == wanted.output
        );
        if failures == 5 {
            break;
        }
    }
    assert_eq!(failures, 0, "sequences differ from the C library's");
}

/// `ftell`, `fseek` and `rewind` of `stdin` in `./program < file`.
#[test]
fn a_redirected_input_seeks() {
    let scratch = Scratch::new("seeks");
    for side in SIDES {
        let calls =
            ["calls", "tellin", "read:10", "tellin", "seekin:5:0", "tellin", "getc", "rewindin", "tellin"];
        let left = redirected(&scratch, side, Out::Truncated, 14_000, &calls);
        // 14000 % 700 is 0.
        let wanted = [0, 10, 10, 0, 5, -2, 0, 0];
        for (line, wanted) in left.report.lines().zip(wanted) {
            assert!(wanted == -2 || line.contains(&format!("Ok({wanted})")), "{side}: {line}");
        }
        assert_eq!(left.input_at, 0, "{side}: the position at exit");
    }
}

/// What a shell does with programs that share a file.
#[test]
fn programs_that_share_a_file_follow_each_other() {
    let scratch = Scratch::new("shell");
    let shell = |script: &str, side: &str| {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "60", "sh", "-c", script]).current_dir(scratch.dir());
        command.env("P", PROGRAM).env("SIDE", side);
        run(command, &format!("{side}: {script}"));
    };
    let lines: String = (0..3000).map(|line| format!("line {line}\n")).collect();
    fs::write(scratch.path("in"), &lines).unwrap();
    for side in ["system", "enter", "threads", "sqpoll"] {
        // What one reader leaves the next one gets.
        shell(r#"("$P" $SIDE report calls gets:300 gets:300; cat) < in > rest"#, side);
        let rest: String = lines.split_inclusive('\n').skip(2).collect();
        assert!(fs::read_to_string(scratch.path("rest")).unwrap() == rest, "{side}: the rest");
        // Also if the program ends without closing its session.
        shell(r#"(LEAK=1 "$P" $SIDE report calls gets:300 gets:300; cat) < in > rest"#, side);
        assert!(fs::read_to_string(scratch.path("rest")).unwrap() == rest, "{side}: the rest, at exit");
        // What one program writes the next one does not overwrite, wherever a seek has led.
        for (redirection, before) in [(">", ""), (">>", "before\n"), ("1<>", "")] {
            let _ = fs::remove_file(scratch.path("out"));
            if !before.is_empty() {
                fs::write(scratch.path("out"), before).unwrap();
            }
            let script = format!(
                r#"{{ echo first; "$P" $SIDE report calls printf:1 host printf:2 tellout next printf:3; echo done; }} {redirection} out"#
            );
            shell(&script, side);
            let wanted = format!("{before}first\nnumber 1\nthe program's own\nnumber 2\nnumber 3\ndone\n");
            let got = fs::read_to_string(scratch.path("out")).unwrap();
            assert_eq!(got, wanted, "{side}: {redirection}");
        }
        shell(
            r#"{ echo first; "$P" $SIDE report calls printf:1 seekout:0:0 printf:2; echo done; } > out"#,
            side,
        );
        let got = fs::read_to_string(scratch.path("out")).unwrap();
        assert_eq!(got, "number 2\ndone\n\n", "{side}: behind the position");
    }
}

/// Pipes, FIFOs and sockets have no position (POSIX `lseek()`).
#[test]
fn what_has_no_position_is_espipe() {
    let scratch = Scratch::new("pipes");
    let fifo = scratch.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let report = scratch.path("report");
    let calls =
        ["calls", "tellin", "seekin:0:0", "getc", "seekin:1:1", "rewindin", "getc", "flushin", "getc"];
    for side in ["system", "enter", "threads", "sqpoll"] {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let (one, mut other) = UnixStream::pair().unwrap();
        let both = OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
        let others: [(&str, OwnedFd, &mut dyn Write); 3] = [
            ("pipe", reader.into(), &mut writer),
            ("socket", one.into(), &mut other),
            ("FIFO", both.try_clone().unwrap().into(), &mut { both }),
        ];
        for (what, input, writer) in others {
            writer.write_all(b"abc").unwrap();
            let mut command = program(side, &report, &calls);
            command.stdin(input).stdout(Stdio::null());
            run(command, &format!("{side}, {what}"));
            let report = fs::read_to_string(&report).unwrap();
            let found: Vec<&str> = report.lines().map(|line| line.split(" bytes").next().unwrap()).collect();
            // What was read ahead stays.
            let wanted = [
                "TellIn Err(29) 0",
                "SeekIn(0, Set) Err(29) 0",
                "Getc Ok(97) 0",
                "SeekIn(1, Current) Err(29) 0",
                "RewindIn Ok(0) 0",
                "Getc Ok(98) 0",
                "FlushIn Ok(0) 0",
                "Getc Ok(99) 0",
            ];
            assert_eq!(found, wanted, "{side}, {what}");
        }
    }
}

/// A position that others share is moved by the host, which this test stands for: what it answers, whose turn it is, and that it goes away.
#[test]
fn a_shared_position_is_asked_for_one_at_a_time() {
    let scratch = Scratch::new("shared-seeks");
    fs::write(scratch.path("file"), "text").unwrap();
    for mode in MODES {
        let Ok(mut session) = small().mode(mode).cpu() else {
            skip("a_shared_position_is_asked_for_one_at_a_time", mode);
            continue;
        };
        let index = session.register_file(File::open(scratch.path("file")).unwrap()).unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        let file = &tables(&session).files()[index.0 as usize];
        let own = file.flags.peek();
        file.seeker.set(near.as_raw_fd().cast_unsigned());
        file.flags.publish(OpenFile::OPEN | OpenFile::READABLE | OpenFile::SHARED | OpenFile::HOST_OWNED);
        // Each request is answered with its offset.
        let mut answers = far.try_clone().unwrap();
        let host = thread::spawn(move || {
            let mut request = [0; SeekRequest::BYTES];
            while answers.read_exact(&mut request).is_ok() {
                let offset = SeekRequest::from_bytes(request).offset;
                answers.write_all(&offset.to_ne_bytes()).unwrap();
            }
        });
        let offsets = [7, i64::MAX, -29, 0];
        let moved = each(&mut session, 4, |fs, lane| fs.lseek(index, offsets[lane as usize], Whence::Set));
        assert_eq!(moved, [Ok(7), Ok(i64::MAX as u64), Err(Errno::SPIPE), Ok(0)], "{mode}");
        // Lanes of a warp take the lock once, and give it back.
        let stream = once(&mut session, |fs| fs.fdopen(index, c"r").unwrap());
        for _ in 0..2 {
            assert_eq!(each(&mut session, 8, |_, _| stream.fseek(5, Whence::Set)), [Ok(()); 8], "{mode}");
        }
        assert_eq!(each(&mut session, 8, |_, _| stream.ftell()), [Ok(0); 8], "{mode}");
        // A thread of the host's, too.
        for _ in 0..2 {
            assert_eq!(session.with_tables(|_| stream.fseek(4, Whence::Set)), Ok(Ok(())), "{mode}");
        }
        // Another has the lock.
        let (begun, released) = (DeviceWord::new(0), DeviceWord::new(0));
        assert!(file.lock.try_take());
        let waited = thread::scope(|scope| {
            scope.spawn(|| {
                while begun.observe() == 0 {
                    thread::yield_now();
                }
                thread::sleep(Duration::from_millis(10));
                released.publish(1);
                file.lock.release();
            });
            once(&mut session, |_| {
                begun.publish(1);
                stream.fseek(3, Whence::Set).map(|()| released.observe())
            })
        });
        assert_eq!(waited, Ok(1), "{mode}");
        // The session is being closed: there is no answer any more.
        far.shutdown(Shutdown::Read).unwrap();
        host.join().unwrap();
        let (end, gone) = UnixStream::pair().unwrap();
        gone.shutdown(Shutdown::Write).unwrap();
        file.seeker.set(end.as_raw_fd().cast_unsigned());
        assert_eq!(once(&mut session, |fs| fs.lseek(index, 1, Whence::Set)), Err(Errno::IO), "{mode}");
        file.flags.publish(own);
    }
}

/// A stream on a file of `0123456789` from 3 on, whose position a host has, too: calls of one lane, and where the host's descriptor then stands.
fn beside_the_host(scratch: &Scratch, append: bool, calls: impl Fn(Fs, &File) + Sync) -> (u64, Vec<u8>) {
    fs::write(scratch.path("file"), "0123456789").unwrap();
    let mut host =
        OpenOptions::new().read(true).write(true).append(append).open(scratch.path("file")).unwrap();
    host.seek(SeekFrom::Start(3)).unwrap();
    let mut session = small().standard_output(host.try_clone().unwrap()).cpu().unwrap();
    let stands = once(&mut session, |fs| {
        calls(fs, &host);
        (&host).stream_position().unwrap()
    });
    drop(session);
    (stands, scratch.read("file"))
}

/// What a stream has read ahead, what was pushed back and what is not written yet count in its position. Calls that read or write elsewhere, or close
/// it, leave the file where the stream stands.
#[test]
fn a_shared_file_is_left_where_its_stream_stands() {
    let scratch = Scratch::new("shared-stands");
    let other = scratch.c("other");
    let next = |fs: Fs| fs.stdout().fgetc().unwrap().unwrap();
    let position = |fs: Fs| fs.stdout().ftell().unwrap();
    let read = |leave: &(dyn Fn(Fs) + Sync)| {
        beside_the_host(&scratch, false, |fs, mut host| {
            assert_eq!((next(fs), next(fs), position(fs)), (b'3', b'4', 5));
            assert_eq!(host.stream_position().unwrap(), 10, "it has read ahead");
            fs.stdout().ungetc(b'x').unwrap();
            assert_eq!((position(fs), next(fs), position(fs)), (4, b'x', 5));
            leave(fs);
        })
    };
    let [flushed, closed, reopened, replaced] = [
        read(&|fs| fs.stdout().fflush().unwrap()),
        read(&|fs| fs.stdout().fclose().unwrap()),
        read(&|fs| _ = fs.stdout().freopen(Some(&other), c"w").unwrap()),
        read(&|fs| {
            let new = fs.fopen(&other, c"w").unwrap();
            fs.dup2(new.fileno().unwrap(), fs.stdout().fileno().unwrap()).unwrap();
        }),
    ]
    .map(|(stands, _)| stands);
    assert_eq!((flushed, closed, reopened, replaced), (5, 5, 5, 5));
    let (stands, text) = read(&|fs| {
        fs.stdout().fputs(c"ab").unwrap();
        fs.stdout().fflush().unwrap();
    });
    assert_eq!((stands, &text[..]), (7, &b"01234ab789"[..]));
    // More was pushed back than there is in front.
    let (stands, _) = beside_the_host(&scratch, false, |fs, _| {
        assert_eq!(next(fs), b'3');
        for byte in *b"fedcba" {
            fs.stdout().ungetc(byte).unwrap();
        }
        fs.stdout().fflush().unwrap();
    });
    assert_eq!(stands, 0);
    for append in [false, true] {
        let (_, text) = beside_the_host(&scratch, append, |fs, mut host| {
            fs.stdout().fputs(c"ab").unwrap();
            // The end is found by a seek to it.
            let wanted = if append { (12, 10) } else { (5, 3) };
            assert_eq!((position(fs), host.stream_position().unwrap()), wanted);
            fs.stdout().fflush().unwrap();
            assert_eq!(position(fs), wanted.0);
            // With nothing to be written, it is where the host puts it.
            host.seek(SeekFrom::Start(2)).unwrap();
            assert_eq!(position(fs), 2);
        });
        assert_eq!(text, if append { &b"0123456789ab"[..] } else { b"012ab56789" });
    }
    // The end that was met is none behind a seek.
    beside_the_host(&scratch, false, |fs, _| {
        let mut rest = [0; 16];
        assert_eq!((fs.stdout().fread(&mut rest), fs.stdout().feof()), (Ok(7), true));
        fs.stdout().fseek(-3, Whence::Current).unwrap();
        assert_eq!((fs.stdout().feof(), next(fs), position(fs)), (false, b'7', 8));
    });
}
