//! The manual page, and completions for shells, made of what clap knows of the command line.

use clap_complete::Shell;
use clap_mangen::Man;

use crate::options;

/// The manual page, in the form of roff.
pub(crate) fn manual_page() -> Vec<u8> {
    let mut text = Vec::new();
    Man::new(options::known()).render(&mut text).expect("memory can be written");
    text
}

/// Completions for a shell.
pub(crate) fn completions(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut options::known(), "gpufs-bench", &mut text);
    text
}
