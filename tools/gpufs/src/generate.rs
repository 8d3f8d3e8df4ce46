//! Manual pages and completions for shells, made of what clap knows of the command line. `cargo xtask dist` installs them.

use std::fs;
use std::path::Path;

use clap_complete::Shell;

use crate::command_line;

/// Where each shell looks for completions, below a prefix.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions/gpufs"),
    (Shell::Zsh, "share/zsh/site-functions/_gpufs"),
    (Shell::Fish, "share/fish/vendor_completions.d/gpufs.fish"),
];

/// Writes a page for `gpufs` and for each of its commands, and completions, below `prefix`.
///
/// # Errors
/// A folder or file cannot be written.
pub(crate) fn write(prefix: &Path) -> Result<(), String> {
    let at = |path: &Path, error| format!("{}: {error}", path.display());
    let make = |path: &Path| fs::create_dir_all(path).map_err(|error| at(path, error));
    let pages = prefix.join("share/man/man1");
    make(&pages)?;
    clap_mangen::generate_to(command_line::known(), &pages).map_err(|error| at(&pages, error))?;
    for (shell, path) in SHELLS {
        let path = prefix.join(path);
        make(path.parent().unwrap_or(prefix))?;
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command_line::known(), "gpufs", &mut text);
        fs::write(&path, text).map_err(|error| at(&path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_and_option_is_there() {
        let prefix = std::env::temp_dir().join(format!("gpufs-generate-{}", std::process::id()));
        write(&prefix).unwrap();
        let read = |path: &str| {
            fs::read_to_string(prefix.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        let completions: Vec<String> = SHELLS.iter().map(|(_, path)| read(path)).collect();
        for command in command_line::known().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let page = read(&format!("share/man/man1/gpufs-{name}.1"));
            assert!(completions.iter().all(|text| text.contains(name)), "{name}");
            for option in command.get_arguments().filter_map(clap::Arg::get_long) {
                assert!(page.contains(&format!("\\-\\-{option}")), "{name} --{option}: {page}");
                assert!(completions.iter().all(|text| text.contains(option)), "{name} --{option}");
            }
        }
        fs::remove_dir_all(&prefix).unwrap();
    }
}
