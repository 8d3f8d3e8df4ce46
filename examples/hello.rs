//! Every thread prints to one file, which the host opened. `cargo run --bin hello`, then `wc -l log.txt`: 202752.
//!
//! It runs on CPU lanes. For an NVIDIA GPU the kernel goes into a library, as in `apps/src/kernels`, which `cargo xtask bundle` builds as a
//! device program; the session is then opened by `.cuda(0, &program)`.

use gpufs_device::kernel::{Handoff, Shared};
use gpufs_device::{Errno, File, fprintf, kernel, warp::global_thread};
use gpufs_host::{Grid, Session};

kernel! {
    /// Every thread prints to one file, and leaves an error for the host.
    pub fn work(fs: Fs, log: File, failed: Shared<Handoff<Errno>>, rounds: u32) {
        for round in 0..rounds {
            // …
            if let Err(errno) = report(log, round) {
                failed.with(fs, |failed| failed.put(errno));
            }
        }
    }
}

fn report(log: File, round: u32) -> Result<(), Errno> {
    let thread = global_thread();
    fprintf!(log, c"thread %d saw %.3f\n", thread, thread as f64 / 3.0)?; // checked by the compiler, as C prints it
    writeln!(log, "thread {thread} is done with round {round}") // Rust's formatting, too
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut session = Session::builder().cpu()?; // or .cuda(0, &program)?
    let log = session.fopen("log.txt", "w")?; // opened once, for all threads
    let failed = session.place(Handoff::default())?;
    let arguments = work::Arguments { log, failed: failed.handle(), rounds: 3 };
    session.start::<work::Entry>(Grid { blocks: 132, threads: 256 }, arguments)?;
    session.synchronize()?; // waits for the kernel, and writes what is buffered
    session.fclose(log)?;
    match session.fetch(&failed)?.get() {
        Some(errno) => Err(errno.into()),
        None => Ok(()),
    }
}
