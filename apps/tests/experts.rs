//! `experts`: states are those of a plain computation, whoever brings the weights, and with room for few of them.

mod common;

use std::fs;

use common::{Tree, errors, run, said, samples, table};
use gpufs_apps::experts::Stack;
use gpufs_apps::kernels::experts::{Job, Meeting, Tokens, think_cached};
use gpufs_apps::memory;
use gpufs_device::Errno;
use gpufs_host::{Grid, Session};

const EXPERTS: &str = env!("CARGO_BIN_EXE_experts");

/// What `experts` says, which must go well.
fn experts(tree: &Tree, arguments: &[&str]) -> String {
    said(EXPERTS, tree, arguments)
}

#[test]
fn states_are_those_of_a_plain_computation() {
    let tree = Tree::new("experts");
    let checked = ["run", "--check", "--page", "4K", "--tokens", "6", "s.safetensors"];
    for (sizes, more) in [
        (&[][..], &["--hit-rate", "0"][..]),
        (&[], &["--hit-rate", "30", "--seed", "3"]),
        // Rows that lie in two pages; a state that is longer than a warp is wide.
        (&["--hidden", "560", "--expert", "26880", "--layers", "3"], &["--cache", "200K", "--width", "32"]),
        // All experts are needed; one lane.
        (
            &["--experts", "3", "--chosen", "3", "--hidden", "16", "--expert", "768", "--layers", "5"],
            &["--blocks", "1", "--lanes", "1", "--width", "1"],
        ),
        (&["--chosen", "7", "--weights-seed", "5"], &["--blocks", "5", "--lanes", "40", "--width", "16"]),
    ] {
        experts(&tree, &[&["make"], sizes, &["s.safetensors"]].concat());
        let said = experts(&tree, &[more, &checked].concat());
        assert!(said.contains("states of 12 tokens, in 3 ways: equal"), "{said}");
        assert!(said.contains("checked: the host computes the same"), "{said}");
        for way in ["cached", "host", "resident"] {
            // A row of the table: round, microseconds, hits of 100, hits, misses, bytes read.
            assert_eq!(table(&said, way).len(), 2, "{said}");
        }
    }
}

#[test]
fn counts_what_had_to_be_read() {
    let tree = Tree::new("experts-counts");
    experts(&tree, &["make", "s.safetensors"]);
    let shared = ["run", "--page", "4K", "--rounds", "3", "s.safetensors"];
    // 16 tokens need two experts of 24 KiB in each of four layers.
    let needed = f64::from(16 * 2 * 4 * (24 << 10));
    let said = experts(&tree, &[&shared[..], &["--hit-rate", "0"]].concat());
    for row in table(&said, "cached").into_iter().chain(table(&said, "host")) {
        assert!(row[5] >= needed && row[2] == 0.0, "nothing fits: {said}");
    }
    assert!(table(&said, "resident").iter().all(|row| row[2..] == [100.0, 0.0, 0.0, 0.0]), "{said}");
    let said = experts(&tree, &[&shared[..], &["--hit-rate", "50"]].concat());
    for way in ["cached", "host"] {
        let last = table(&said, way).pop().unwrap();
        assert!((20.0..80.0).contains(&last[2]) && last[4] > 0.0, "half fits: {said}");
    }
    // Twice as much room as there are weights: no set of pages is full, and what was read once is there. What lies before the experts is read,
    // too.
    let said = experts(&tree, &[&shared[..], &["--cache", "4M"]].concat());
    let read: f64 = table(&said, "cached").iter().map(|row| row[5]).sum();
    let file = fs::metadata(tree.path().join("s.safetensors")).unwrap().len();
    assert!(read <= file.next_multiple_of(4096) as f64, "each page once: {said}");
}

#[test]
fn the_file_is_one_of_safetensors() {
    let tree = Tree::new("experts-file");
    experts(&tree, &["make", "--layers", "3", "--experts", "5", "s.safetensors"]);
    let made = fs::read(tree.path().join("s.safetensors")).unwrap();
    let length = u64::from_le_bytes(made[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&made[8..8 + length]).unwrap();
    let tensors: Vec<_> =
        header.as_object().unwrap().iter().filter(|(name, _)| *name != "__metadata__").collect();
    assert_eq!(tensors.len(), 3 + 3 * 5 * 3);
    let numbers = |value: &serde_json::Value| -> Vec<u64> {
        value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
    };
    let mut spans = Vec::new();
    for (name, tensor) in tensors {
        let (shape, span) = (numbers(&tensor["shape"]), numbers(&tensor["data_offsets"]));
        assert_eq!(tensor["dtype"], "I8");
        assert_eq!(shape[0] * shape[1], span[1] - span[0], "{name}");
        spans.push((span[0], span[1]));
    }
    // One behind the other, to the end of the file.
    spans.sort_unstable();
    let end = spans.iter().fold(0, |end, span| if span.0 == end { span.1 } else { u64::MAX });
    assert_eq!(end, (made.len() - 8 - length) as u64);
    assert_eq!(header["layers.2.experts.4.down"]["shape"], serde_json::json!([64, 128]));

    experts(&tree, &["make", "--layers", "3", "--experts", "5", "again"]);
    assert_eq!(fs::read(tree.path().join("again")).unwrap(), made);
    experts(&tree, &["make", "--layers", "3", "--experts", "5", "--weights-seed", "2", "again"]);
    assert_ne!(fs::read(tree.path().join("again")).unwrap(), made);
}

#[test]
fn a_failure_ends_the_waits_of_all() {
    let tree = Tree::new("experts-failure");
    experts(&tree, &["make", "s.safetensors"]);
    let stack = Stack::open(&tree.path().join("s.safetensors")).unwrap();
    // Half of the experts go, after it was looked at.
    let file = fs::File::options().write(true).open(tree.path().join("s.safetensors")).unwrap();
    file.set_len(stack.experts_at + stack.bytes() / 2).unwrap();
    let mut session = Session::builder().cache(64 << 10).cache_page(4096).cpu().unwrap();
    let shape = stack.shape;
    let routers = (stack.routers_at, stack.experts_at - stack.routers_at);
    let job = Job {
        shape,
        experts_at: stack.experts_at,
        routers: memory::array_of_file(&mut session, &stack.file, routers).unwrap(),
        states: memory::cells(&mut session, 2 * shape.hidden).unwrap().1,
        activations: memory::cells(&mut session, shape.chosen * shape.inner).unwrap().1,
        results: memory::cells(&mut session, shape.hidden).unwrap().1,
        sums: memory::words64(&mut session, shape.hidden).unwrap().1,
        scores: memory::words(&mut session, shape.experts).unwrap().1,
        chosen: memory::words(&mut session, shape.chosen).unwrap().1,
        places: memory::words64(&mut session, shape.chosen).unwrap().1,
        meeting: Meeting::default(),
    };
    let job = session.place(job).unwrap();
    let map = session.map(stack.file).unwrap();
    let arguments = think_cached::Arguments { job: job.handle(), map, tokens: Tokens { first: 0, count: 1 } };
    session.start::<think_cached::Entry>(Grid { blocks: 3, threads: 40 }, arguments).unwrap();
    session.synchronize().unwrap();
    assert_eq!(session.fetch(&job).unwrap().meeting.failure.get(), Some(Errno::NXIO));
}

#[test]
fn what_the_page_shows_is_what_it_says() {
    let samples = samples(EXPERTS, "experts");
    assert!(samples >= 2, "{samples} samples");
}

#[test]
fn says_what_is_wrong() {
    let tree = Tree::new("experts-wrong");
    tree.file("text", "no stack, but a text of some bytes");
    experts(&tree, &["make", "s.safetensors"]);
    let whole = fs::read(tree.path().join("s.safetensors")).unwrap();
    tree.file("cut", &whole[..whole.len() - 1]);
    // A header that says something else than its sizes.
    let mut other = whole;
    other[100] ^= 1;
    tree.file("other", other);
    let cases: [(&[&str], &str); 13] = [
        (&["run", "missing"], "experts: missing: No such file or directory\n"),
        (&["run", "text"], "experts: text: not a stack of experts; 'experts make' makes one\n"),
        (&["run", "other"], "experts: other: not a stack of experts; 'experts make' makes one\n"),
        (&["run"], "experts: make or run, and a FILE are needed; see experts --help\n"),
        (&["walk", "s"], "experts: walk: not make or run; see experts --help\n"),
        (&["make", "--chosen", "17", "s"], "experts: 17 chosen experts: from 1 to 16, which there are\n"),
        (&["make", "--layers", "0", "s"], "experts: 0 layers of 16 experts: from 1 to 4096 of each\n"),
        (
            &["make", "--expert", "1000", "s"],
            "experts: --expert 1000: not a multiple of 3 times --hidden 64\n",
        ),
        (
            &["make", "--layers", "4096", "--experts", "4096", "s"],
            "experts: 4096 layers of 4096 experts: at most 262144 experts in all\n",
        ),
        (
            &["make", "--expert", "192", "s"],
            "experts: states of 64 numbers, 1 inside: multiples of 16 from 16 to 65536\n",
        ),
        (&["run", "--tokens", "0", "s"], "experts: --tokens 0: from 1 to 1048576\n"),
        (&["run", "--hit-rate", "101", "s"], "experts: --hit-rate 101: from 0 to 100\n"),
        (&["run", "--ways", "all", "s"], "experts: --ways all: some of cached,host,resident, with commas\n"),
    ];
    for (arguments, message) in cases {
        let output = run(EXPERTS, tree.path(), arguments);
        assert_eq!(errors(&output), message, "{arguments:?}");
        assert_eq!(output.status.code(), Some(1));
    }
    let output = run(EXPERTS, tree.path(), ["run", "cut"]);
    assert!(errors(&output).contains("cut, or is being made"), "{}", errors(&output));
    let output = run(EXPERTS, tree.path(), ["--version"]);
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("experts (gpufs) "));
    let output = run(EXPERTS, tree.path(), ["-h"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("experts run"));
}
