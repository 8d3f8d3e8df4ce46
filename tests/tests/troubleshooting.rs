//! docs/troubleshooting.md names texts that the code says.

use std::fs;
use std::path::Path;

use gpufs_tests::compilers::root;

/// Folders of what says something to users, and the kinds of files that do.
const SAY: [&str; 10] = [
    "gpufs-build/src",
    "gpufs-c/src",
    "gpufs-core/src",
    "gpufs-device/src",
    "gpufs-host/src/cpu",
    "gpufs-host/src/gpu",
    "gpufs-host/src/ring",
    "gpufs-host/src/session",
    "include/gpufs",
    "tools/cargo-gpufs/src",
];

/// The text of the files below a folder, with literals that go on in the next line joined.
fn gather(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "h") {
            let text = fs::read_to_string(&path).unwrap();
            let mut parts = text.split("\\\n");
            into.push_str(parts.next().unwrap());
            parts.for_each(|part| into.push_str(part.trim_start()));
        }
    }
}

#[test]
fn each_text_is_said() {
    let page = fs::read_to_string(root().join("docs/troubleshooting.md")).expect("the page");
    let mut said = String::new();
    SAY.iter().for_each(|folder| gather(&root().join(folder), &mut said));
    let texts: Vec<_> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .map(|row| row.split('`').next().unwrap())
        .collect();
    assert!(texts.len() > 30, "the tables are there: {texts:?}");
    // "gpufs: " may be put before a text where it is printed; what is shorter than a word says nothing.
    let parts = |text: &str| -> Vec<String> {
        let text = text.strip_prefix("gpufs: ").unwrap_or(text);
        text.split('…').map(str::trim).filter(|part| part.len() > 4).map(str::to_owned).collect()
    };
    for text in texts {
        let parts = parts(text);
        assert!(!parts.is_empty(), "{text}: nothing to look for");
        for part in parts {
            assert!(said.contains(&part), "{text}: nothing says \"{part}\"");
        }
    }
}
