//! A program some of whose calls fail, which looks at none of them, or is asked to. `tests/failures.rs` reads what it is told.
//!
//! ```text
//! failed_calls sqpoll|enter|threads WIDTH plain|look|look-early|quiet|exit|none DIRECTORY
//! ```

use std::ffi::CString;
use std::process::ExitCode;

use gpufs_device::file::{Descriptor, O_RDONLY};
use gpufs_device::stdio::Whence;
use gpufs_host::ring::Mode;
use gpufs_host::{CpuOptions, Grid};
use gpufs_tests::small;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, width, what, directory] = &arguments[..] else { return ExitCode::from(2) };
    let mode = match mode.as_str() {
        "sqpoll" => Mode::Sqpoll,
        "enter" => Mode::Enter,
        _ => Mode::Threads,
    };
    let width = width.parse().expect("a width");
    let path = |name: &str| CString::new(format!("{directory}/{name}")).expect("no NUL");
    let (missing, present, full) = (path("missing"), path("present"), c"/dev/full");
    std::fs::write(format!("{directory}/present"), "text\n").expect("a file");
    let builder = small().mode(mode).streams(16).files(1024).report_failures(what != "quiet");
    let mut session = builder.cpu_with(CpuOptions { width, ..CpuOptions::default() }).expect("a session");
    if what == "look-early" {
        assert_eq!(session.statistics().failures, Some(Vec::new()));
    }
    let fails = what != "none";
    let grid = Grid { blocks: 3, threads: 100 };
    session
        .run(grid, |fs| {
            // The end of a file is no failure.
            let file = fs.open(&present, O_RDONLY, 0);
            if let Ok(file) = file {
                assert_eq!(fs.pread(file, &mut [0; 8], 5), Ok(0));
                fs.close(file).expect("closed");
            }
            if fails {
                let _ = fs.open(&missing, O_RDONLY, 0);
                let _ = fs.pread(Descriptor(1023), &mut [0; 4], 0);
            }
        })
        .expect("the kernel");
    // The host's own calls, and one lane's.
    let opened = session.with_tables(|fs| {
        let file = fs.fopen(&present, c"r").expect("a file that is there");
        assert_eq!(file.fgetc(), Ok(Some(b't')));
        while let Ok(Some(_)) = file.fgetc() {}
        assert!(file.feof());
        if fails {
            let _ = fs.fopen(&missing, c"r");
            let _ = file.fseek(-1, Whence::Set);
            let _ = file.fputc(b'x');
            let all: Vec<_> = (0..20).map(|_| fs.fopen(&present, c"r")).collect();
            for file in all.into_iter().flatten() {
                file.fclose().expect("closed");
            }
            let full = fs.fopen(full, c"w").expect("the full device");
            let _ = full.fputs(c"text");
            let _ = full.fflush();
            let _ = full.fclose();
            let _ = full.fclose();
        }
        file.fclose()
    });
    opened.expect("no kernel runs").expect("closed");
    if what == "look" {
        for failure in session.statistics().failures.expect("no fault") {
            println!("{} {:?} {}", failure.call.name(), failure.errno, failure.count);
        }
    }
    if what == "exit" {
        std::mem::forget(session);
    }
    ExitCode::SUCCESS
}
