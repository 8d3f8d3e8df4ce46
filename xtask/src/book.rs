//! The book: its pages are those of the documents that `docs/SUMMARY.md` names, and mdBook makes HTML of them.
//!
//! A page of `docs/start` is followed to the letter by `cargo xtask book follow PAGE`: its programs are written to the files that their first lines
//! name, its commands run in one shell, in a folder of its own. The word behind `sh` says where a command runs, or what it takes: in the
//! `checkout`, as `root`, on a machine with a GPU (`gpu`, `amd`).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::step::{self, Report};
use crate::tidy::joined;
use crate::workspace::{minutes, root, target_directory};

const SUMMARY: &str = "docs/SUMMARY.md";
/// Languages of blocks that are programs.
const PROGRAMS: [&str; 4] = ["c", "cpp", "cuda", "python"];

/// Every page is in the book, and is laid out for mdBook; the book, where mdBook is.
pub(crate) fn check() -> Vec<Report> {
    let book = target_directory().join("book");
    let laid_out = step::in_process("pages of the book", || has_all_pages().and_then(|()| lay_out(&book)));
    let made = if !laid_out.passed() {
        Report::skipped("book", "its pages are not laid out")
    } else if Command::new("mdbook").arg("--version").output().is_err() {
        Report::skipped("book", "mdbook is not here (cargo install mdbook)")
    } else {
        let mut build = Command::new("mdbook");
        build.arg("build").arg(&book).arg("--dest-dir").arg(book.join("html"));
        step::run("book", &mut build, minutes(2))
    };
    vec![laid_out, made]
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
fn pages() -> Result<BTreeSet<String>, String> {
    Ok(links(&read(SUMMARY)?).into_iter().map(|(_, _, target, _)| joined("docs", target)).collect())
}

fn read(page: &str) -> Result<String, String> {
    fs::read_to_string(root().join(page)).map_err(|error| format!("{page}: {error}"))
}

/// The names of a folder's files.
fn names(folder: &str) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(root().join(folder)).map_err(|error| format!("{folder}: {error}"))?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
}

fn has_all_pages() -> Result<(), String> {
    let pages = pages()?;
    for folder in ["docs", "docs/start"] {
        for name in names(folder)? {
            let page = joined(folder, &name);
            if name.ends_with(".md") && page != SUMMARY && !pages.contains(&page) {
                return Err(format!("{SUMMARY} does not name {page}"));
            }
        }
    }
    Ok(())
}

/// A page as the book has it: a link to what the book does not have is its text alone.
fn within(page: &str, text: &str, pages: &BTreeSet<String>) -> String {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut left = text.to_owned();
    for (begin, shown, target, end) in links(text).into_iter().rev() {
        let path = target.split('#').next().unwrap_or_default();
        let elsewhere = target.contains("://") || path.is_empty();
        if !elsewhere && !pages.contains(&joined(folder, path)) {
            left.replace_range(begin..end, shown);
        }
    }
    left
}

/// Lays the pages out as mdBook wants them.
fn lay_out(book: &Path) -> Result<(), String> {
    let pages = pages()?;
    let write = |name: &str, text: &[u8]| {
        let path = book.join(name);
        fs::create_dir_all(path.parent().unwrap_or(book))
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| format!("{}: {error}", path.display()))
    };
    let _ = fs::remove_dir_all(book);
    write("book.toml", read("docs/book.toml")?.as_bytes())?;
    // The summary lies beside the pages, and names them from there.
    let (text, mut summary) = (read(SUMMARY)?, read(SUMMARY)?);
    for (_, _, target, end) in links(&text).into_iter().rev() {
        summary.replace_range(end - 1 - target.len()..end - 1, &joined("docs", target));
    }
    write("src/SUMMARY.md", summary.as_bytes())?;
    for page in &pages {
        write(&joined("src", page), within(page, &read(page)?, &pages).as_bytes())?;
    }
    for plot in names("docs/plots")? {
        let bytes =
            fs::read(root().join("docs/plots").join(&plot)).map_err(|error| format!("{plot}: {error}"))?;
        write(&joined("src/docs/plots", &plot), &bytes)?;
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
        let made = read(page).and_then(|text| script(page, &text, kinds)).and_then(|script| {
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
        let pages = BTreeSet::from(["docs/a.md".to_owned()]);
        let text = "[a](a.md#x) [b](../b.rs), ![plot](plots/p.svg) [`c`](https://c.d) [e](#e)";
        let wanted = "[a](a.md#x) b, ![plot](plots/p.svg) [`c`](https://c.d) [e](#e)";
        assert_eq!(within("docs/f.md", text, &pages), wanted);
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
