//! Threads share the lines of a file: each takes the next one, and those that hold "error" go to another file, in no fixed order.
//!
//! `cargo run --bin read_lines INPUT OUTPUT`. For a GPU, see `hello.rs`.

use gpufs_device::kernel::{Handoff, Shared};
use gpufs_device::{Errno, File, fprintf, kernel};
use gpufs_host::{Grid, Session};

/// Bytes of the longest line, with its newline and the NUL that `fgets` adds.
const LINE_BYTES: usize = 512;

kernel! {
    /// Copies the lines of `input` that hold "error" to `output`. Any grid.
    pub fn find_errors(fs: Fs, input: File, output: File, failed: Shared<Handoff<Errno>>) {
        if let Err(errno) = copy_errors(input, output) {
            failed.with(fs, |failed| failed.put(errno));
        }
    }
}

fn copy_errors(input: File, output: File) -> Result<(), Errno> {
    let mut buffer = [0; LINE_BYTES];
    // Ends with the file: no other thread gets a line that this one got.
    while let Some(line) = input.fgets(&mut buffer)? {
        let text = line.to_bytes();
        if text.len() == LINE_BYTES - 1 && !text.ends_with(b"\n") {
            return Err(Errno::OVERFLOW); // fgets would give the rest of the line to another thread
        }
        if text.windows(5).any(|word| word == b"error") {
            let length = text.strip_suffix(b"\n").unwrap_or(text).len();
            fprintf!(output, c"%.*s\n", length as i32, line)?; // the last line, too, then ends with a newline
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [input_path, output_path] = &arguments[..] else {
        return Err("two files are needed: read_lines INPUT OUTPUT".into());
    };
    let mut session = Session::builder().cpu()?;
    let input = session.fopen(input_path, "r")?;
    let output = session.fopen(output_path, "w")?;
    let failed = session.place(Handoff::default())?;
    let arguments = find_errors::Arguments { input, output, failed: failed.handle() };
    session.start::<find_errors::Entry>(Grid { blocks: 8, threads: 64 }, arguments)?;
    session.synchronize()?;
    session.fclose(input)?;
    session.fclose(output)?;
    match session.fetch(&failed)?.get() {
        Some(Errno::OVERFLOW) => {
            Err(format!("a line is longer than {} bytes: raise LINE_BYTES", LINE_BYTES - 2).into())
        }
        Some(errno) => Err(errno.into()),
        None => Ok(()),
    }
}
