//! Prints from every thread into `log.txt`: on a GPU where there is one, else on CPU lanes.

use gpufs_device::kernel::Handoff;
use gpufs_host::{Grid, Session};
use {{library}}::greet;

/// What `build.rs` built; empty where it could not.
const PROGRAM: &[u8] = include_bytes!(env!("GPUFS_PROGRAM"));

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut session = Session::builder().open(PROGRAM)?;
    let log = session.fopen("log.txt", "w")?; // opened once, for all threads
    let failed = session.place(Handoff::default())?;
    let arguments = greet::Arguments { log, failed: failed.handle() };
    session.start::<greet::Entry>(Grid { blocks: 132, threads: 256 }, arguments)?;
    session.synchronize()?; // waits for the kernel, and writes what is buffered
    session.fclose(log)?;
    if let Some(errno) = session.fetch(&failed)?.get() {
        return Err(errno.into());
    }
    println!("log.txt: {} lines", std::fs::read_to_string("log.txt")?.lines().count());
    Ok(())
}
