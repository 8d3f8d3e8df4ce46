//! The files of the repository that are text, each read once.

use std::path::Path;
use std::process::Command;

use crate::lex::{self, Rust};

/// A file, by its path from the root, with `/` between folders.
pub(super) struct File {
    pub(super) path: String,
    pub(super) text: String,
    /// What is in it, if it is Rust.
    pub(super) rust: Option<Rust>,
}

impl File {
    fn new(path: String, text: String) -> Self {
        let rust = path.ends_with(".rs").then(|| lex::lex(&text));
        Self { path, text, rust }
    }

    /// Whether its name ends with one of these.
    pub(super) fn is_any(&self, extensions: &[&str]) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension))
    }

    /// Lines of prose, with their numbers: all of a document, the comments of Rust, every line of other sources.
    pub(super) fn prose(&self) -> Vec<(usize, &str)> {
        match &self.rust {
            Some(rust) => rust.comments.iter().map(|comment| (comment.line, &*comment.text)).collect(),
            None => (1..).zip(self.text.lines()).collect(),
        }
    }
}

/// All of them.
pub(super) struct Tree {
    pub(super) files: Vec<File>,
}

impl Tree {
    /// What git has under `root`, and what it would take.
    pub(super) fn read(root: &Path) -> Result<Self, String> {
        let listed = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let output = Command::new("git").args(listed).current_dir(root).output();
        let output =
            output.map_err(|error| format!("git ls-files, which names the files to look at: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("git ls-files, which names the files to look at: {}", said.trim()));
        }
        let paths = String::from_utf8_lossy(&output.stdout);
        let files = paths.split_terminator('\0').filter_map(|path| {
            // What is deleted and not committed is not there; what is no text has nothing to check.
            let text = std::fs::read_to_string(root.join(path)).ok()?;
            Some(File::new(path.to_owned(), text))
        });
        Ok(Self { files: files.collect() })
    }

    /// A tree of these paths and texts.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File::new((*path).to_owned(), (*text).to_owned());
        Self { files: files.iter().map(file).collect() }
    }

    /// The files in Rust, and what is in them.
    pub(super) fn rust(&self) -> impl Iterator<Item = (&File, &Rust)> {
        self.files.iter().filter_map(|file| Some((file, file.rust.as_ref()?)))
    }

    /// Whether there is a file or folder of this path.
    pub(super) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.files.iter().any(|file| {
            file.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}
