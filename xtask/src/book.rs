//! The book: its pages are those of the documents that `docs/SUMMARY.md` names, and mdBook makes HTML of them.
//!
//! A page of `docs/start` is followed to the letter by `cargo xtask book follow PAGE`: its programs are written to the files that their first lines
//! name, its commands run in one shell, in a folder of its own. The word behind `sh` says where a command runs, or what it takes: in the
//! `checkout`, as `root`, on a machine with a GPU (`gpu`, `amd`).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{self, Report};
use crate::workspace::{minutes, root, target_directory};

const SUMMARY: &str = "docs/SUMMARY.md";
/// Languages of blocks that are programs.
const PROGRAMS: [&str; 4] = ["c", "cpp", "cuda", "python"];

/// Every page is in the book; the book, where mdBook is.
pub(crate) fn check() -> Vec<Report> {
    vec![step::in_process("the book has all pages", has_all_pages), build()]
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part.as_os_str().to_str() {
            Some(".") => {}
            Some("..") => drop(plain.pop()),
            _ => plain.push(part),
        }
        plain
    })
}

/// A link in a document: where it begins, its text and where it leads, and where it ends. Images are none.
fn links(text: &str) -> Vec<(usize, &str, &str, usize)> {
    let mut found = Vec::new();
    for (middle, _) in text.match_indices("](") {
        let Some(begin) = text[..middle].rfind('[') else { continue };
        let Some(length) = text[middle..].find(')') else { continue };
        let target = &text[middle + 2..middle + length];
        if !text[..begin].ends_with('!') && !target.contains(char::is_whitespace) {
            found.push((begin, &text[begin + 1..middle], target, middle + length + 1));
        }
    }
    found
}

/// The pages of the book, by their paths from the root.
fn pages() -> Result<BTreeSet<PathBuf>, String> {
    let text = read(Path::new(SUMMARY))?;
    Ok(links(&text).into_iter().map(|(_, _, target, _)| plain(&Path::new("docs").join(target))).collect())
}

fn read(page: &Path) -> Result<String, String> {
    fs::read_to_string(root().join(page)).map_err(|error| format!("{}: {error}", page.display()))
}

fn has_all_pages() -> Result<(), String> {
    let pages = pages()?;
    for folder in ["docs", "docs/start"] {
        let entries = fs::read_dir(root().join(folder)).map_err(|error| format!("{folder}: {error}"))?;
        for entry in entries.filter_map(Result::ok) {
            let path = Path::new(folder).join(entry.file_name());
            let is_page = path.extension().is_some_and(|extension| extension == "md");
            if is_page && path != Path::new(SUMMARY) && !pages.contains(&path) {
                return Err(format!("{SUMMARY} does not name {}", path.display()));
            }
        }
    }
    Ok(())
}

/// A page as the book has it: a link to what the book does not have is its text alone.
fn within(page: &Path, text: &str, pages: &BTreeSet<PathBuf>) -> String {
    let folder = page.parent().unwrap_or(Path::new(""));
    let mut left = text.to_owned();
    for (begin, shown, target, end) in links(text).into_iter().rev() {
        let path = target.split('#').next().unwrap_or_default();
        let elsewhere = target.contains("://") || path.is_empty();
        if !elsewhere && !pages.contains(&plain(&folder.join(path))) {
            left.replace_range(begin..end, shown);
        }
    }
    left
}

/// Lays the pages out in `target/book` and has mdBook make HTML of them.
pub(crate) fn build() -> Report {
    const NAME: &str = "book";
    if Command::new("mdbook").arg("--version").output().is_err() {
        return Report::skipped(NAME, "mdbook is not here (cargo install mdbook)");
    }
    let book = target_directory().join("book");
    if let Err(why) = lay_out(&book) {
        return step::in_process(NAME, || Err(why));
    }
    step::run(
        NAME,
        Command::new("mdbook").arg("build").arg(&book).arg("--dest-dir").arg(book.join("html")),
        minutes(2),
    )
}

fn lay_out(book: &Path) -> Result<(), String> {
    let pages = pages()?;
    let write = |path: PathBuf, text: &[u8]| {
        let folder = path.parent().unwrap_or(book);
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| format!("{}: {error}", path.display()))
    };
    let _ = fs::remove_dir_all(book);
    write(book.join("book.toml"), read(Path::new("docs/book.toml"))?.as_bytes())?;
    // mdBook wants the summary beside the pages, and its paths from there.
    let mut summary = read(Path::new(SUMMARY))?;
    for (_, _, target, end) in links(&summary.clone()).into_iter().rev() {
        let path = plain(&Path::new("docs").join(target)).display().to_string();
        summary.replace_range(end - 1 - target.len()..end - 1, &path);
    }
    write(book.join("src/SUMMARY.md"), summary.as_bytes())?;
    for page in &pages {
        write(book.join("src").join(page), within(page, &read(page)?, &pages).as_bytes())?;
    }
    for plot in
        fs::read_dir(root().join("docs/plots")).map_err(|error| error.to_string())?.filter_map(Result::ok)
    {
        let bytes = fs::read(plot.path()).map_err(|error| error.to_string())?;
        write(book.join("src/docs/plots").join(plot.file_name()), &bytes)?;
    }
    Ok(())
}

/// The shell program that follows a page: `kinds` are the words of commands that can run here.
fn script(page: &str, text: &str, kinds: &[String]) -> Result<String, String> {
    let mut script = String::from("set -euxo pipefail\n");
    let mut counts = String::new();
    for block in text.split("```").skip(1).step_by(2) {
        let (info, body) = block.split_once('\n').ok_or_else(|| format!("{page}: an empty block"))?;
        let mut words = info.split(' ');
        let (language, word) = (words.next().unwrap_or_default(), words.next());
        match (language, word) {
            ("sh", None) => script.push_str(body),
            ("sh", Some("checkout")) => {
                let _ = write!(script, "(cd \"$GPUFS\"\n{body})\n");
            }
            ("sh", Some(kind)) if kinds.iter().any(|can| can == kind) => script.push_str(body),
            ("sh", Some(kind)) => {
                let _ = writeln!(script, ": SKIP a step of {page}: it takes {kind}");
            }
            (language, _) if PROGRAMS.contains(&language) => {
                let first = body.lines().next().unwrap_or_default();
                let name = first.trim_matches(['/', '*', '#', ' ']);
                if name.is_empty() || name.contains(' ') {
                    return Err(format!("{page}: the first line of a program, '{first}', names no file"));
                }
                let _ = write!(script, "cat >{name} <<'END OF FILE'\n{body}END OF FILE\n");
                if let Some((file, lines)) = info.rsplit(' ').next().and_then(|writes| writes.split_once(':'))
                    && file != "stdout"
                {
                    let _ = writeln!(counts, "test ! -e {file} || test $(wc -l <{file}) = {lines}");
                }
            }
            _ => {}
        }
    }
    Ok(script + &counts)
}

/// Follows pages, each in a folder of its own below the system's for such files. What `kinds` names can be done here.
pub(crate) fn follow(chosen: &[String], kinds: &[String]) -> bool {
    let mut reports = Vec::new();
    for page in chosen {
        let name = Path::new(page).file_stem().map(|name| name.display().to_string()).unwrap_or_default();
        let folder = std::env::temp_dir().join(format!("gpufs-page-{name}-{}", std::process::id()));
        let made = read(Path::new(page)).and_then(|text| script(page, &text, kinds)).and_then(|script| {
            fs::create_dir_all(&folder).map_err(|error| error.to_string()).map(|()| script)
        });
        println!("{page}");
        reports.push(match made {
            Ok(script) => {
                let mut shell = Command::new("bash");
                shell.args(["-c", &script]).current_dir(&folder).env("GPUFS", root());
                step::run("page", &mut shell, minutes(30))
            }
            Err(why) => step::in_process("page", || Err(why)),
        });
        let _ = fs::remove_dir_all(&folder);
    }
    step::summarize(&reports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_leave_the_book_are_text() {
        let pages = BTreeSet::from([PathBuf::from("docs/a.md")]);
        let text = "[a](a.md#x) [b](../b.rs), ![plot](plots/p.svg) [`c`](https://c.d) [e](#e)";
        let wanted = "[a](a.md#x) b, ![plot](plots/p.svg) [`c`](https://c.d) [e](#e)";
        assert_eq!(within(Path::new("docs/f.md"), text, &pages), wanted);
    }

    #[test]
    fn a_page_becomes_a_script() {
        let page = "```sh checkout\nmake\n```\n```c out.txt:2\n/* a.c */\nint a;\n```\n```sh gpu\nrun\n```\n```sh\ncc a.c\n```\n";
        let wanted = "set -euxo pipefail\n(cd \"$GPUFS\"\nmake\n)\ncat >a.c <<'END OF FILE'\n/* a.c */\nint a;\nEND OF FILE\n\
            : SKIP a step of p: it takes gpu\ncc a.c\ntest ! -e out.txt || test $(wc -l <out.txt) = 2\n";
        assert_eq!(script("p", page, &[]).unwrap(), wanted);
        assert!(script("p", page, &["gpu".to_owned()]).unwrap().contains("\nrun\n"));
        assert!(script("p", "```c a:1\nint a;\n```\n", &[]).unwrap_err().contains("names no file"));
    }
}
