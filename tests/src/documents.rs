//! The samples of the documents, and what each must print.
//!
//! A fenced block of code names the file that it writes, and how many lines: `c log.txt:128`. The tests run it and count.

use std::path::Path;

use crate::Scratch;

/// The pages with samples, from the project's root.
pub const PAGES: [&str; 5] =
    ["README.md", "include/README.md", "docs/howto.md", "docs/start/c.md", "docs/start/cuda.md"];

/// Languages whose blocks are programs: each is run and its output counted. Blocks of other languages, or of none, are commands and pictures.
const PROGRAMS: [&str; 4] = ["c", "cpp", "cuda", "rust"];

/// One sample.
#[derive(Debug)]
pub struct Sample {
    /// The page.
    pub page: &'static str,
    /// `c`, `cpp`, `cuda` or `rust`.
    pub language: String,
    /// The program.
    pub text: String,
    /// The file that it writes, and how many lines that has.
    pub writes: (String, usize),
}

impl Sample {
    /// Compares what the sample wrote with what its page says.
    ///
    /// # Panics
    /// If that is another number of lines, or a line is torn or there twice.
    pub fn check(&self, folder: &Scratch) {
        let (name, lines) = &self.writes;
        let text = String::from_utf8(folder.read(name)).expect("text");
        let mut found: Vec<_> = text.lines().collect();
        assert_eq!(found.len(), *lines, "{} of {}: lines in {name}", self.language, self.page);
        assert!(
            text.ends_with('\n'),
            "{} of {}: {name} ends in the middle of a line",
            self.language,
            self.page
        );
        found.sort_unstable();
        found.dedup();
        assert_eq!(
            found.len(),
            *lines,
            "{} of {}: lines of {name} are there twice",
            self.language,
            self.page
        );
    }
}

/// The samples of a page.
///
/// # Panics
/// If a program does not say what it writes.
#[must_use]
pub fn samples(page: &'static str) -> Vec<Sample> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{page}: {error}"));
    let fences: Vec<_> = text.split("```").collect();
    assert!(fences.len() % 2 == 1, "{page}: a block of code does not end");
    let blocks = fences.into_iter().skip(1).step_by(2);
    blocks
        .filter_map(|block| {
            let (info, text) = block.split_once('\n')?;
            let (language, writes) = info.split_once(' ').unwrap_or((info, ""));
            if !PROGRAMS.contains(&language) {
                return None;
            }
            let writes = writes.split_once(':').and_then(|(name, lines)| Some((name, lines.parse().ok()?)));
            let (name, lines) =
                writes.unwrap_or_else(|| panic!("{page}: a sample in {language} does not say FILE:LINES"));
            Some(Sample {
                page,
                language: language.to_owned(),
                text: text.to_owned(),
                writes: (name.to_owned(), lines),
            })
        })
        .collect()
}
