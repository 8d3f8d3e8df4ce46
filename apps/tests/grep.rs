//! `grep`: what it prints, says and returns is what the system's `grep -F` does.

mod common;

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use common::{Random, Tree, errors, needs, run};

const GREP: &str = env!("CARGO_BIN_EXE_grep");

/// Ways to ask.
const OPTIONS: [&[&str]; 6] = [&[], &["-n"], &["-c", "-n"], &["-l"], &["-H"], &["-h", "-n"]];

/// Compares with the system's `grep`, with `theirs` for it alone and `ours` for ours alone.
fn compare(tree: &Tree, theirs: &[&str], ours: &[&str], pattern: &str, files: &[String]) {
    for options in OPTIONS {
        let rest = || options.iter().copied().chain(["--", pattern]).chain(files.iter().map(String::as_str));
        let expected = run("grep", tree.path(), theirs.iter().copied().chain(rest()));
        let found = run(GREP, tree.path(), ours.iter().copied().chain(rest()));
        let case = format!("{ours:?} {options:?} {pattern:?}");
        let differs = expected.stdout.iter().zip(&found.stdout).position(|(one, other)| one != other);
        assert_eq!(errors(&found), errors(&expected), "{case}");
        assert_eq!(differs, None, "{case}: the first byte that differs");
        assert_eq!(found.stdout.len(), expected.stdout.len(), "{case}");
        assert_eq!(found.status.code(), expected.status.code(), "{case}");
    }
}

fn names<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

#[test]
fn odd_files() {
    needs("grep");
    let tree = Tree::new("grep-odd");
    tree.file("text", "one foo\ntwo\nfoo foo\n\nlast foo");
    tree.file("none", "nothing\nhere\n");
    tree.file("empty", "");
    tree.file("newlines", "\n\n\n");
    tree.file("nul", "a foo\nb\0foo\nbar\0\0\nfoo");
    tree.file("nul-only", "\0");
    tree.file("high", b"\xff\xfe foo \x80\n\xc3\nfoo\n");
    tree.file("crlf", "foo\r\nbar\r\n");
    fs::create_dir(tree.path().join("directory")).unwrap();
    let files = names([
        "text",
        "none",
        "empty",
        "missing",
        "newlines",
        "nul",
        "nul-only",
        "high",
        "directory",
        "crlf",
        "text",
    ]);
    for pattern in ["foo", "", "last foo", "zzz", "\r"] {
        compare(&tree, &["-F"], &["-F"], pattern, &files);
        compare(&tree, &["-F"], &["--width", "4", "--lanes", "4", "--blocks", "2"], pattern, &files);
    }
    compare(&tree, &["-F"], &[], "foo", &names(["text"]));
    compare(&tree, &["-F"], &[], "foo", &names(["directory"]));
    compare(&tree, &["-F"], &[], "foo", &names(["nul"]));
    compare(&tree, &["-F"], &[], "foo", &names(["missing"]));
}

#[test]
fn long_files_and_lines() {
    needs("grep");
    let tree = Tree::new("grep-long");
    let mut random = Random::new(11);
    let mut files = Vec::new();
    // Around the beginning that a lane reads (32 KiB), a stretch (96 KiB) and a window (128 KiB).
    for bytes in [32_767, 32_768, 32_769, 98_303, 98_304, 98_305, 131_072, 196_608, 700_001] {
        for longest in [5, 300, 9_000] {
            let name = format!("text-{bytes}-{longest}");
            tree.file(&name, random.text(bytes, longest, b"abcd"));
            files.push(name);
        }
    }
    let long =
        |before: usize, after: usize| [vec![b'x'; before], b"abba".to_vec(), vec![b'y'; after]].concat();
    let tail = random.text(50_000, 80, b"abcd");
    for (index, (before, after)) in
        [(98_300, 10), (98_302, 200_000), (300_000, 300_000), (0, 131_072), (98_304 + 131_072, 3)]
            .into_iter()
            .enumerate()
    {
        for (ending, text) in [
            ("cut", long(before, after)),
            ("more", [long(before, after), b"\n".to_vec(), tail.clone()].concat()),
        ] {
            let name = format!("line-{index}-{ending}");
            tree.file(&name, text);
            files.push(name);
        }
    }
    for pattern in ["abba", "", "xab"] {
        compare(&tree, &["-F"], &[], pattern, &files);
    }
    let pattern = "x".repeat(20_000);
    compare(&tree, &["-F"], &[], &pattern, &files);
}

#[test]
fn files_that_turn_binary() {
    needs("grep");
    let tree = Tree::new("grep-binary");
    let mut random = Random::new(13);
    let mut files = Vec::new();
    for at in [0, 10, 32_767, 32_768, 98_303, 98_304, 150_000, 400_000] {
        let mut text = random.text(500_000, 60, b"abcd");
        text[at] = 0;
        text[at + 7] = 0;
        let name = format!("nul-at-{at}");
        tree.file(&name, text);
        files.push(name);
    }
    for pattern in ["abba", "", "zzz"] {
        compare(&tree, &["-F"], &[], pattern, &files);
    }
}

#[test]
fn classes() {
    needs("grep");
    let tree = Tree::new("grep-class");
    let mut random = Random::new(17);
    tree.file("few", random.text(200_000, 50, b"abcdefghijklmnopqrstuvwxyz0-]^ABC "));
    tree.file("nul", b"abc\n0\0]\n");
    tree.file("high", b"\x80\n\xff\nq\n\n");
    let files = names(["few", "nul", "high"]);
    for class in ["[0]", "[a-z0-9]", "[^a-z]", "[]]", "[^]a-z]", "[A-C^]", "[0-]", "[-0]", "[]-a]"] {
        compare(&tree, &[], &["--class"], class, &files);
    }
    for wrong in ["a-z", "[]", "[z-a]", "[[:alpha:]]", "[a]b]"] {
        let output = run(GREP, tree.path(), ["--class", wrong, "few"]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(errors(&output).contains("not a class of bytes"), "{wrong}: {}", errors(&output));
    }
}

#[test]
fn many_files_from_a_list() {
    needs("grep");
    let tree = Tree::new("grep-many");
    let mut random = Random::new(19);
    let files: Vec<String> = (0..3_000).map(|index| format!("file-{index}")).collect();
    for name in &files {
        let bytes = random.below(3_000) as usize;
        tree.file(name, random.text(bytes, 40, b"abcdefgh"));
    }
    let expected = run(
        "grep",
        tree.path(),
        ["-F", "-n", "--", "abc"].into_iter().chain(files.iter().map(String::as_str)),
    );
    tree.file("list", files.join("\n") + "\n");
    for mode in ["sqpoll", "enter", "threads"] {
        let output = run(GREP, tree.path(), ["-n", "--mode", mode, "--files-from", "list", "abc"]);
        if mode != "threads" && errors(&output).contains("no ring could be opened") {
            println!("SKIP grep --mode {mode}: {}", errors(&output).trim());
            continue;
        }
        assert_eq!(errors(&output), "");
        assert!(output.stdout == expected.stdout, "--mode {mode}");
    }
    let mut child = Command::new(GREP)
        .current_dir(tree.path())
        .args(["-n", "--files-from", "-", "abc"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(files.join("\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.stdout == expected.stdout, "the list from the standard input");
}

#[test]
fn lanes_that_part() {
    needs("grep");
    let tree = Tree::new("grep-part");
    let mut random = Random::new(23);
    let files: Vec<String> = (0..150).map(|index| format!("file-{index}")).collect();
    for (index, name) in files.iter().enumerate() {
        let bytes = random.below(if index % 20 == 0 { 200_000 } else { 3_000 }) as usize;
        let mut text = random.text(bytes, 40, b"abcdefgh");
        if index % 11 == 0 {
            text.insert(bytes / 2, 0);
        }
        tree.file(name, text);
    }
    for seed in ["1", "2", "3"] {
        let ours = ["--device", "cpu", "--seed", seed, "--blocks", "3", "--lanes", "40"];
        compare(&tree, &["-F"], &ours, "abc", &files);
    }
}

#[test]
fn output_that_fails() {
    let tree = Tree::new("grep-full");
    // More than the standard output's buffers hold.
    tree.file("text", "foo\n".repeat(1_000_000));
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output =
        Command::new(GREP).current_dir(tree.path()).args(["foo", "text"]).stdout(full).output().unwrap();
    assert!(errors(&output).ends_with("grep: write error: No space left on device\n"), "{}", errors(&output));
    assert_eq!(output.status.code(), Some(2));
    // Nobody reads the pipe.
    let mut child = Command::new(GREP)
        .current_dir(tree.path())
        .args(["foo", "text", "text", "text"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(errors(&output).ends_with("grep: write error: Broken pipe\n"), "{}", errors(&output));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn says_what_is_wrong() {
    let tree = Tree::new("grep-wrong");
    let cases: [(&[&str], &str); 6] = [
        (&[], "grep: no PATTERN was given; see grep --help\n"),
        (&["foo"], "grep: no FILE was named; name some, or a list of them with --files-from\n"),
        (&["foo", "--files-from", "missing"], "grep: missing: No such file or directory\n"),
        (&["--piece", "0", "foo", "file"], "grep: --piece 0: choose 1 to 16777216 bytes\n"),
        (&["--output", "100", "foo", "file"], "grep: --output 100: choose 4096 to 16777216 bytes\n"),
        (
            &["a\nb", "file"],
            "grep: PATTERN contains a newline, and matches are within one line; search for one string at a time\n",
        ),
    ];
    for (arguments, message) in cases {
        let output = run(GREP, tree.path(), arguments);
        assert_eq!(errors(&output), message);
        assert_eq!(output.status.code(), Some(2));
    }
}

/// Pieces of every length, so that lines and matches lie across their borders in every way.
#[test]
fn pieces_of_files() {
    needs("grep");
    let tree = Tree::new("grep-pieces");
    let mut random = Random::new(29);
    let mut files = Vec::new();
    for (index, longest) in [0, 1, 3, 10, 40, 200, 2_000, 2_000].into_iter().enumerate() {
        let name = format!("text-{index}");
        let bytes = 1 + random.below(3_000) as usize;
        tree.file(&name, random.text(bytes, longest, b"ab"));
        files.push(name);
    }
    tree.file("empty", "");
    tree.file("directory-like", [b"x".repeat(1_500), b"\nab\n".to_vec()].concat());
    files.extend(names(["empty", "directory-like", "missing"]));
    let rounds = [1, 2, 3, 7, 16, 31, 64, 100, 255, 1_000, 4_096];
    for (round, piece) in rounds.into_iter().enumerate() {
        let piece = piece.to_string();
        let pattern = ["a", "ab", "abba", "babab", "", "aabbabaabbabaab", "zz"][round % 7];
        let seed = round.to_string();
        let mut ours = vec!["-F", "--device", "cpu", "--mode", "enter", "--piece", &piece];
        match round % 3 {
            0 => ours.extend(["--width", "4", "--lanes", "8", "--blocks", "3"]),
            1 => ours.extend(["--seed", &seed, "--lanes", "40", "--blocks", "2"]),
            _ => {}
        }
        compare(&tree, &["-F"], &ours, pattern, &files);
    }
}

/// Output as long as the text and longer, and lines of all kinds of length, against a naive model too.
#[test]
fn all_lines_match() {
    needs("grep");
    let tree = Tree::new("grep-dense");
    let mut random = Random::new(31);
    tree.file("short-lines", random.text(400_000, 2, b"ab"));
    tree.file("lines", random.text(900_000, 90, b"abc d"));
    tree.file("long-lines", random.text(900_000, 70_000, b"abcd"));
    tree.file("newlines", "\n".repeat(300_000));
    let long_name = "a-very-long-name".repeat(12);
    tree.file(&long_name, "\n".repeat(3_000));
    let files = ["short-lines", "lines", "long-lines", "newlines", &long_name].map(str::to_owned);
    for pattern in ["", "a"] {
        compare(&tree, &["-F"], &["--mode", "enter"], pattern, &files);
    }
    let text = fs::read(tree.path().join("lines")).unwrap();
    let lines = text.strip_suffix(b"\n").unwrap_or(&text).split(|&byte| byte == b'\n');
    let mut expected = Vec::new();
    for (number, line) in (1..).zip(lines) {
        if line.windows(2).any(|pair| pair == b"ab") {
            expected.extend_from_slice(format!("{number}:").as_bytes());
            expected.extend_from_slice(line);
            expected.push(b'\n');
        }
    }
    for (piece, output) in
        [("5000", "64K"), ("98304", "256K"), ("288K", "4096"), ("288K", "432K"), ("1M", "2M")]
    {
        let ours = ["-n", "--mode", "enter", "--piece", piece, "--output", output, "ab", "lines"];
        assert!(run(GREP, tree.path(), ours).stdout == expected, "--piece {piece} --output {output}");
    }
    // What fits is put out whole; what almost does is not.
    for output in ["5000", "100000", "300K", "1152K"] {
        compare(&tree, &["-F"], &["--mode", "enter", "--output", output], "b", &files);
    }
}

/// Few lines of much text, some of them close together; pieces whose text is longer than the output buffer, and whose output is shorter.
#[test]
fn few_lines_match() {
    needs("grep");
    let tree = Tree::new("grep-sparse");
    let mut random = Random::new(37);
    let (mut few, mut close) = (Vec::new(), Vec::new());
    for _ in 0..20_000 {
        let line = random.text(40, 80, b"abc d");
        for (text, one_in) in [(&mut few, 1_000), (&mut close, 3_000)] {
            text.extend_from_slice(&line);
            if random.below(one_in) == 0 {
                // As many as a lane keeps, one fewer, and more.
                let lines = if one_in == 1_000 { 1 } else { 1 + random.below(12) };
                for _ in 0..lines {
                    text.extend_from_slice(b" needle needle\nmore\n");
                }
            }
            text.push(b'\n');
        }
    }
    tree.file("few", few);
    tree.file("close", close);
    let files = names(["few", "close"]);
    for output in ["4096", "64K", "2M"] {
        compare(&tree, &["-F"], &["--mode", "enter", "--output", output], "needle", &files);
        let ours = ["--mode", "enter", "--output", output, "--device", "cpu", "--width", "4"];
        compare(&tree, &["-F"], &ours, "needle", &files);
    }
}

/// The string lies across each border of pieces, at every place in it; strings of many lengths.
#[test]
fn strings_across_borders() {
    let tree = Tree::new("grep-borders");
    for length in [1, 2, 3, 8, 17, 40] {
        let string: String = "Zyxwvutsrqponmlkjihgfedcba0123456789-=_+"[..length].to_owned();
        let mut expected = String::new();
        let mut files = Vec::new();
        for start in 60..110 {
            let name = format!("text-{length}-{start}");
            tree.file(&name, format!("{}\nn{string}m\nlast", "x".repeat(start - 1)));
            expected += &format!("{name}:2:n{string}m\n");
            files.push(name);
        }
        let ours = ["-n", "--device", "cpu", "--mode", "enter", "--blocks", "2", "--piece", "100", "--"];
        let operands = std::iter::once(string.as_str()).chain(files.iter().map(String::as_str));
        let output = run(GREP, tree.path(), ours.into_iter().chain(operands));
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{length}");
    }
}

/// A file that is not as long as it was when the work was divided.
#[test]
fn files_that_grow_and_shrink() {
    let tree = Tree::new("grep-growing");
    // The kernel reads what the length of a file of /proc does not say.
    let output = run(GREP, tree.path(), ["-c", "--piece", "64", "", "/proc/self/maps"]);
    let lines: u64 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
    assert!(lines > 10, "{lines}: {}", errors(&output));
    // Others write and cut it meanwhile: any lines of it, each whole but for the last, and an end.
    let path = tree.file("log", "");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0_usize;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                round += 1;
                fs::write(&path, "one line of the log\n".repeat(round * 997 % 20_000)).unwrap();
            }
        });
        for piece in ["1000", "10000", "288K"] {
            for _ in 0..4 {
                let output =
                    run(GREP, tree.path(), ["-n", "--mode", "enter", "--piece", piece, "log", "log"]);
                assert!(matches!(output.status.code(), Some(0 | 1)), "{}", errors(&output));
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
