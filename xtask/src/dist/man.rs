//! Manual pages of the C calls, made of the headers; the program `gpufs` writes its own. What stands above a function there is its description;
//! the order of the parts is that of man-pages(7).
//!
//! A function without words of its own above it, and one whose words begin with "The same" or "As", is on the page of the one before. A comment that
//! begins with a call is a list of macros, a page of its own.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::{at, make_parent};

/// Headers whose functions are not for users, or are C's own names for the others.
const APART: [&str; 4] = ["raw.h", "standard", "libc", "drop_in.h"];

/// A page.
#[derive(Debug, Default)]
struct Page {
    header: String,
    names: Vec<String>,
    prototypes: Vec<String>,
    /// What it is, where that is not the first sentence of what is said.
    title: Option<String>,
    /// What is said, a paragraph or a block of code at a time.
    said: Vec<String>,
}

/// Writes a page for each function of the headers in `include/gpufs` to `share/man/man3`.
pub(super) fn write(headers: &Path, prefix: &Path) -> Result<(), String> {
    for page in all(headers)? {
        let Some((first, others)) = page.names.split_first() else { continue };
        put(&prefix.join(format!("share/man/man3/{first}.3")), &page.text())?;
        for other in others {
            put(&prefix.join(format!("share/man/man3/{other}.3")), &format!(".so man3/{first}.3\n"))?;
        }
    }
    Ok(())
}

/// Has the program `gpufs` write its own pages, and completions for shells, below the prefix that it lies in.
pub(super) fn of_program(prefix: &Path) -> Result<(), String> {
    let program = prefix.join("bin/gpufs");
    let status =
        Command::new(&program).arg("generate").arg(prefix).status().map_err(|error| at(&program, &error))?;
    if !status.success() {
        return Err(format!("{} generate: {status}", program.display()));
    }
    Ok(())
}

fn put(path: &Path, text: &str) -> Result<(), String> {
    make_parent(path)?;
    fs::write(path, text).map_err(|error| at(path, &error))
}

/// The pages of all headers.
fn all(headers: &Path) -> Result<Vec<Page>, String> {
    let entries = fs::read_dir(headers).map_err(|error| at(headers, &error))?;
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort_unstable();
    let mut pages = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !APART.contains(&name.as_str()) && path.is_file() {
            let text = fs::read_to_string(&path).map_err(|error| at(&path, &error))?;
            pages.extend(pages_of(&name, &text));
        }
    }
    Ok(pages)
}

/// The pages of one header: comments and functions that begin a line. C++'s forms stand in a namespace, and are known by `GPUFS_BOTH`.
fn pages_of(header: &str, text: &str) -> Vec<Page> {
    let mut pages: Vec<Page> = Vec::new();
    let mut said: Option<String> = None;
    // Whether the last page goes on: no empty line came since.
    let mut goes_on = false;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("/*") {
            let mut comment = line.to_owned();
            while !comment.contains("*/") {
                let Some(line) = lines.next() else { break };
                comment = comment + "\n" + line;
            }
            pages.extend(listed(header, text, &comment));
            said = Some(comment);
        } else if line.is_empty() {
            (said, goes_on) = (None, false);
        } else if begins_function(line) {
            let mut declaration = line.to_owned();
            while !declaration.contains(['{', ';']) {
                let Some(line) = lines.next() else { break };
                declaration = declaration + " " + line.trim();
            }
            let Some((name, prototype)) = function(&declaration) else { continue };
            let words = said.take().map(|comment| paragraphs(&comment));
            let follows = words
                .as_ref()
                .and_then(|words| words.first())
                .is_none_or(|first| first.starts_with("The same") || first.starts_with("As "));
            match pages.last_mut() {
                Some(page) if goes_on && follows => {
                    page.names.push(name);
                    page.prototypes.push(prototype);
                    page.said.extend(words.unwrap_or_default());
                }
                _ if words.is_none() => {}
                _ => {
                    let (names, prototypes) = (vec![name], vec![prototype]);
                    let (header, said) = (header.to_owned(), words.unwrap_or_default());
                    pages.push(Page { header, names, prototypes, title: None, said });
                    goes_on = true;
                }
            }
        }
    }
    pages
}

/// The page of a comment that lists calls, `gpufs_name(arguments)   what it does`, with what the header begins with as its title.
fn listed(header: &str, text: &str, comment: &str) -> Option<Page> {
    if !comment.starts_with("/* gpufs_") {
        return None;
    }
    let (list, rest) = comment.split_once("\n *\n")?;
    let list: Vec<_> = list.lines().map(|line| line.get(3..).unwrap_or_default()).collect();
    let calls = list.iter().filter(|line| line.starts_with("gpufs_"));
    let calls: Vec<_> = calls.filter_map(|line| Some(&line[..=line.find(")  ")?])).collect();
    let title = text.trim_start_matches("/* ").split([':', '.']).next()?.to_owned();
    let mut said = vec![list.iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")];
    said.extend(paragraphs(rest));
    let names: Vec<_> = calls.iter().filter_map(|call| Some(call.split_once('(')?.0.to_owned())).collect();
    let prototypes = calls.iter().map(|call| format!("{call};")).collect();
    (!names.is_empty()).then(|| Page {
        header: header.to_owned(),
        names,
        prototypes,
        title: Some(title),
        said,
    })
}

/// Whether a line begins a C function of the library's, and neither a macro nor C++'s form of one.
fn begins_function(line: &str) -> bool {
    line.starts_with(|first: char| first.is_ascii_alphabetic())
        && !["GPUFS_BOTH", "GPUFS_SIZE_", "GPUFS_OFFSET_", "typedef", "struct", "namespace", "template"]
            .iter()
            .any(|other| line.starts_with(other))
        && (line.starts_with("GPUFS_INLINE") || line.contains(" gpufs_") || line.contains("*gpufs_"))
}

/// The name of a function, and its declaration as C's.
fn function(declaration: &str) -> Option<(String, String)> {
    let end = declaration.find(['{', ';'])?;
    let mut text = declaration[..end].trim().trim_start_matches("GPUFS_INLINE").trim().to_owned();
    if let Some(rest) = text.strip_prefix("GPUFS_RESULT(") {
        let (result, rest) = rest.split_once(')')?;
        text = format!("{result} {}", rest.trim());
    }
    let (before, _) = text.split_once('(')?;
    let name = before.rsplit([' ', '*']).next()?.to_owned();
    let is_users = name.starts_with("gpufs_") && !name.ends_with('_') && !name.starts_with("gpufs_raw_");
    let words: Vec<_> = text.split_whitespace().collect();
    is_users.then(|| (name, words.join(" ").replace("* gpufs_", "*gpufs_") + ";"))
}

/// The words of a comment: paragraphs, and blocks of code, which keep their lines and are indented.
fn paragraphs(comment: &str) -> Vec<String> {
    let inside = comment.trim_start_matches("/*").trim_end().trim_end_matches("*/");
    let mut paragraphs = vec![String::new()];
    for line in inside.lines() {
        let line = line.trim_start().strip_prefix('*').unwrap_or(line);
        let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
        let is_code = line.starts_with("   ");
        let last = paragraphs.last_mut().expect("there is one");
        if line.is_empty() || (is_code != last.starts_with("   ") && !last.is_empty()) {
            paragraphs.push(line.to_owned());
        } else {
            let between = if is_code { "\n" } else { " " };
            *last = if last.is_empty() { line.to_owned() } else { format!("{last}{between}{line}") };
        }
    }
    paragraphs.retain(|paragraph| !paragraph.trim().is_empty());
    paragraphs
}

impl Page {
    fn text(&self) -> String {
        let mut text = format!(
            ".TH {} 3 \"\" \"gpufs {}\" \"gpufs\"\n.SH NAME\n{} \\- {}\n.SH LIBRARY\ngpufs (\\fI\\-lgpufs\\fR)\n.SH SYNOPSIS\n.nf\n\
             .B #include <gpufs/{}>\n.PP\n",
            self.names[0],
            env!("CARGO_PKG_VERSION"),
            self.names.join(", "),
            escaped(&self.in_short()),
            self.header
        );
        for prototype in &self.prototypes {
            let _ = writeln!(text, ".B {}", escaped(prototype).replace('"', "\\(dq"));
        }
        text.push_str(".fi\n.SH DESCRIPTION\n");
        for paragraph in &self.said {
            let is_code = paragraph.starts_with("   ");
            let _ = match is_code {
                true => writeln!(text, ".PP\n.nf\n{}\n.fi", escaped(paragraph)),
                false => writeln!(text, ".PP\n{}", escaped(paragraph)),
            };
        }
        let see = self.others();
        if !see.is_empty() {
            let see: Vec<_> = see.iter().map(|(name, section)| format!(".BR {name} ({section})")).collect();
            let _ = writeln!(text, ".SH SEE ALSO\n{}", see.join(" ,\n"));
        }
        text
    }
    /// The first sentence, for whatis(1).
    fn in_short(&self) -> String {
        if let Some(title) = &self.title {
            return title.clone();
        }
        let first = self.said.first().map_or("", String::as_str);
        let end = [". ", ": ", " (", ", as "].iter().filter_map(|end| first.find(end)).min();
        end.map_or(first, |end| &first[..end]).trim_end_matches('.').to_owned()
    }
    /// Pages of the system that the text names, such as open(2).
    fn others(&self) -> Vec<(String, char)> {
        let text = self.said.join(" ");
        let mut found = Vec::new();
        for (place, _) in text.match_indices('(') {
            let rest = &text.as_bytes()[place + 1..];
            let (Some(section @ b'1'..=b'8'), Some(b')')) = (rest.first(), rest.get(1)) else { continue };
            let before = &text[..place];
            let begin = before
                .rfind(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
                .map_or(0, |end| end + 1);
            let name = &before[begin..];
            let other = (name.to_owned(), char::from(*section));
            if !name.is_empty() && !found.contains(&other) {
                found.push(other);
            }
        }
        found
    }
}

/// For troff: no line is taken for a request, and hyphens and backslashes are themselves.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = text.lines().map(|line| match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}"),
        false => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::{all, begins_function, function, pages_of};
    use crate::workspace::root;

    const HEADER: &str = "/* A header. */\n#define X 1\n\n/* Opens it (open(2)). -1: `EINVAL`.\n *\n *     gpufs_x(\"a\\n\");\n *\n \
                          * More. */\nGPUFS_INLINE GPUFS_RESULT(char *)\ngpufs_x(const char *path,\n        int mode) {\n    return 0;\n}\n\
                          /* The same of another. */\nGPUFS_INLINE GPUFS_RESULT(int) gpufs_y(int mode) { return 0; }\n\
                          GPUFS_INLINE int gpufs_z(int mode) { return 0; }\n/* Helps. */\nGPUFS_INLINE int gpufs_help_(int mode) { return 0; }\n\n\
                          GPUFS_INLINE int gpufs_unsaid(void) { return 0; }\n/* Closes. */\nint gpufs_host_close(gpufs_host *host);\n";

    #[test]
    fn pages_are_what_the_header_says() {
        let pages = pages_of("x.h", HEADER);
        assert_eq!(pages.len(), 2, "{pages:?}");
        assert_eq!(pages[0].names, ["gpufs_x", "gpufs_y", "gpufs_z"]);
        assert_eq!(
            pages[0].prototypes[0],
            "char * gpufs_x(const char *path, int mode);".replace("* g", "*g")
        );
        assert_eq!(pages[1].prototypes, ["int gpufs_host_close(gpufs_host *host);"]);
        let text = pages[0].text();
        for expected in [
            "gpufs_x, gpufs_y, gpufs_z \\- Opens it\n",
            ".B #include <gpufs/x.h>\n",
            ".PP\nOpens it (open(2)). \\-1: `EINVAL`.\n.PP\n.nf\n    gpufs_x(\"a\\en\");\n.fi\n.PP\nMore.\n",
            ".BR open (2)\n",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    /// What users call has a page, and each page says in short what it is.
    #[test]
    fn each_call_has_a_page() {
        let pages = all(&root().join("include/gpufs")).unwrap();
        let listed: Vec<_> = pages.iter().filter_map(|page| page.title.as_deref()).collect();
        assert_eq!(listed, ["The printf family", "The scanf family"]);
        let has = |name: &str| pages.iter().any(|page| page.names.iter().any(|own| own == name));
        for name in
            "fopen fopen_shared fread fchdir pread host_open host_fopen fsync rename aio_read asprintf sscanf"
                .split(' ')
        {
            assert!(has(&format!("gpufs_{name}")), "{name}");
        }
        let count: usize = pages.iter().map(|page| page.names.len()).sum();
        assert!(count > 245, "{count} functions");
        // None is left out because nothing is said of it.
        for entry in std::fs::read_dir(root().join("include/gpufs")).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() || path.ends_with("raw.h") || path.ends_with("drop_in.h") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for line in text.lines().filter(|line| begins_function(line) && line.ends_with(['{', ';', '}'])) {
                let name = function(line).map(|(name, _)| name);
                assert!(name.as_deref().is_none_or(has), "{}: {line}: no page", path.display());
            }
        }
        for page in &pages {
            let short = page.in_short();
            assert!(!short.is_empty() && short.len() < 200, "{:?}: {short}", page.names);
        }
    }
}
