//! Threads sum up a column of CSV files, a file each, by the crate `csv-core`, which was written for machines without an operating system and
//! knows no gpufs: quoted fields, doubled quotes and newlines in fields are its business.
//!
//! `cargo run --bin csv FOLDER FILES COLUMN OUTPUT`: the files are `FOLDER/0.csv` and so on. For a GPU, see `hello.rs`.

mod kernel;

use std::os::unix::ffi::OsStrExt as _;

use gpufs_device::Errno;
use gpufs_device::kernel::{Handoff, Path};
use gpufs_host::{Grid, Session};
use kernel::totals;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [folder, files, column, output_path] = &arguments[..] else {
        return Err("four arguments are needed: csv FOLDER FILES COLUMN OUTPUT".into());
    };
    let number = |text: &std::ffi::OsStr| {
        text.to_str()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| format!("{}: a number is needed", text.display()))
    };
    let (files, column) = (number(files)?, number(column)?);
    let folder = std::ffi::CString::new(folder.as_bytes())?;
    let mut session = Session::builder().cpu()?;
    let output = session.fopen(output_path, "w")?;
    let folder = session.place(Path::new(&folder).ok_or("the folder's path is too long")?)?;
    let failed = session.place(Handoff::default())?;
    let arguments =
        totals::Arguments { folder: folder.handle(), files, column, output, failed: failed.handle() };
    session.start::<totals::Entry>(Grid { blocks: 4, threads: 64 }, arguments)?;
    session.synchronize()?;
    session.fclose(output)?;
    match session.fetch(&failed)?.get() {
        Some(Errno::INVAL) => Err(format!("a record has no number in column {column}").into()),
        Some(errno) => Err(errno.into()),
        None => Ok(()),
    }
}
