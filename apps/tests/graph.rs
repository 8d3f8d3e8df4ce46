//! `graph`: distances and ranks are those of a plain computation, through a cache much smaller than the file and on arrays.

mod common;

use std::collections::VecDeque;
use std::fs;
use std::path::Path;

use common::{Tree, errors, run, said, samples, table};

const GRAPH: &str = env!("CARGO_BIN_EXE_graph");

/// A graph's neighbours, as this test reads the file.
struct Graph(Vec<Vec<usize>>);

impl Graph {
    fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let number = |at: usize, size: usize| {
            bytes[at..at + size].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
        };
        assert_eq!(&bytes[..8], b"gpufsCSR");
        let (vertices, edges, size) = (number(8, 8), number(16, 8), number(24, 8));
        let edges_at = (4096 + 8 * (vertices + 1)).next_multiple_of(4096);
        assert_eq!(bytes.len(), edges_at + edges * size);
        let offset = |vertex: usize| number(4096 + 8 * vertex, 8);
        let row =
            |vertex| (offset(vertex)..offset(vertex + 1)).map(|edge| number(edges_at + edge * size, size));
        Self((0..vertices).map(|vertex| row(vertex).collect()).collect())
    }
    fn distances(&self, start: usize) -> Vec<u32> {
        let mut distances = vec![u32::MAX; self.0.len()];
        distances[start] = 0;
        let mut queue = VecDeque::from([start]);
        while let Some(vertex) = queue.pop_front() {
            for neighbour in &self.0[vertex] {
                if distances[*neighbour] == u32::MAX {
                    distances[*neighbour] = distances[vertex] + 1;
                    queue.push_back(*neighbour);
                }
            }
        }
        distances
    }
    fn ranks(&self, rounds: u32) -> Vec<f64> {
        let count = self.0.len() as f64;
        let mut ranks = vec![1.0 / count; self.0.len()];
        for _ in 0..rounds {
            let (mut next, mut left_over) = (vec![0.0; self.0.len()], 0.0);
            for (vertex, neighbours) in self.0.iter().enumerate() {
                if neighbours.is_empty() {
                    left_over += ranks[vertex];
                }
                for neighbour in neighbours {
                    next[*neighbour] += ranks[vertex] / neighbours.len() as f64;
                }
            }
            ranks =
                next.into_iter().map(|sum: f64| 0.15 / count + 0.85 * (sum + left_over / count)).collect();
        }
        ranks
    }
}

/// What `graph` says, which must go well.
fn graph(tree: &Tree, arguments: &[&str]) -> String {
    said(GRAPH, tree, arguments)
}

#[test]
fn results_are_those_of_a_plain_computation() {
    let tree = Tree::new("graph");
    // Pages of 4 KiB, of which the cache has eight; the files have 40 to 80.
    let shared = ["--both", "--cache", "32K", "--page", "4K", "--output", "found"];
    for (kind, wide, more) in [
        ("uniform", None, &[][..]),
        ("kronecker", None, &["--seed", "5"][..]),
        ("kronecker", Some("--wide"), &["--blocks", "1", "--lanes", "1", "--width", "1"][..]),
        ("uniform", Some("--wide"), &["--blocks", "3", "--lanes", "40", "--width", "32"][..]),
    ] {
        let recipe =
            ["make", "--kind", kind, "--scale", "11", "--degree", "15", "--graph-seed", "9", "g.csr"];
        graph(&tree, &recipe.into_iter().chain(wide).collect::<Vec<_>>());
        let known = Graph::read(&tree.path().join("g.csr"));

        let start = (0..known.0.len()).max_by_key(|vertex| known.0[*vertex].len()).unwrap();
        let number = start.to_string();
        let searched = [&["bfs", "--start", &number], &shared[..], more, &["g.csr"]].concat();
        let said = graph(&tree, &searched);
        let found = fs::read(tree.path().join("found")).unwrap();
        let found: Vec<u32> =
            found.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        assert_eq!(found, known.distances(start), "{kind}: {said}");
        // The cache was used, and was too small.
        // A row of the table: round, milliseconds, hits, misses, evictions.
        for row in table(&said, "cached") {
            assert!(row[3] > 30.0 && row[4] > 8.0, "{kind}: {said}");
        }
        assert_eq!((table(&said, "cached").len(), table(&said, "plain").len()), (2, 2), "{said}");
        assert!(table(&said, "plain").iter().all(|row| row[2..] == [0.0; 3]), "{said}");

        let ranked = [&["rank", "--iterations", "5"], &shared[..], more, &["g.csr"]].concat();
        graph(&tree, &ranked);
        let found = fs::read(tree.path().join("found")).unwrap();
        let found = found.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes));
        let wanted = known.ranks(5);
        assert_eq!(found.len(), wanted.len());
        for (vertex, (found, wanted)) in found.zip(wanted).enumerate() {
            assert!((found - wanted).abs() < 1e-12, "{kind}: vertex {vertex}: {found}, not {wanted}");
        }
    }
}

#[test]
fn what_the_page_shows_is_what_it_says() {
    let samples = samples(GRAPH, "graph");
    assert!(samples >= 3, "{samples} samples");
}

#[test]
fn a_recipe_always_makes_the_same_bytes() {
    let tree = Tree::new("graph-make");
    let made = |arguments: &[&str]| {
        graph(&tree, &[&["make", "--scale", "9"], arguments, &["g.csr"]].concat());
        fs::read(tree.path().join("g.csr")).unwrap()
    };
    for kind in ["uniform", "kronecker"] {
        let first = made(&["--kind", kind]);
        assert_eq!(first, made(&["--kind", kind]));
        assert_ne!(first, made(&["--kind", kind, "--graph-seed", "2"]));
    }
    // No edges at all.
    made(&["--degree", "0"]);
    let said = graph(&tree, &["bfs", "--both", "--check", "g.csr"]);
    assert!(said.contains("1 vertices reached from 0, the farthest in 0 steps"), "{said}");
    assert!(said.contains("checked: the host computes the same"), "{said}");
    graph(&tree, &["rank", "--both", "--check", "g.csr"]);
}

#[test]
fn says_what_is_wrong() {
    let tree = Tree::new("graph-wrong");
    tree.file("text", "no graph, but a text of some bytes, more than a header has");
    graph(&tree, &["make", "--scale", "8", "g.csr"]);
    let whole = fs::read(tree.path().join("g.csr")).unwrap();
    tree.file("cut", &whole[..whole.len() - 1]);
    let mut wrong = whole.clone();
    // The last neighbour.
    let last = wrong.len() - 1;
    wrong[last] = 0x7f;
    tree.file("wrong", wrong);
    let cases: [(&[&str], &str); 11] = [
        (&["bfs", "missing"], "graph: missing: No such file or directory\n"),
        (&["bfs", "text"], "graph: text: not a graph; 'graph make' makes one\n"),
        (&["bfs", "."], "graph: .: not a graph; 'graph make' makes one\n"),
        (&["bfs"], "graph: make, bfs or rank, and a FILE are needed; see graph --help\n"),
        (&["walk", "g.csr"], "graph: walk: not make, bfs or rank; see graph --help\n"),
        (&["make", "--scale", "32", "g"], "graph: --scale 32: from 1 to 31\n"),
        (
            &["make", "--kind", "odd", "g"],
            "graph: --kind odd: unknown kind of graph; use uniform or kronecker\n",
        ),
        (&["bfs", "--start", "256", "g.csr"], "graph: --start 256: the graph has 256 vertices\n"),
        (&["bfs", "--rounds", "0", "g.csr"], "graph: --rounds 0: at least 1\n"),
        (
            &["bfs", "--page", "5000", "g.csr"],
            "graph: cache_page: 5000 is not a power of two from 4096 to 1048576\n",
        ),
        (
            &["bfs", "--device", "tpu", "g.csr"],
            "graph: --device tpu: unknown device; use cpu, cuda, hip or auto\n",
        ),
    ];
    for (arguments, message) in cases {
        let output = run(GRAPH, tree.path(), arguments);
        assert_eq!(errors(&output), message, "{arguments:?}");
        assert_eq!(output.status.code(), Some(1));
    }
    let output = run(GRAPH, tree.path(), ["rank", "cut"]);
    assert!(errors(&output).contains("cut, or is being made"), "{}", errors(&output));
    for way in ["--both", "--plain"] {
        let output = run(GRAPH, tree.path(), ["rank", way, "wrong"]);
        let said = errors(&output);
        assert!(said.starts_with("graph: wrong: neighbour ") && said.contains("beyond the graph"), "{said}");
        assert_eq!(output.status.code(), Some(1));
    }
    let output = run(GRAPH, tree.path(), ["--version"]);
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("graph (gpufs) "));
    let output = run(GRAPH, tree.path(), ["-h"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("graph rank"));
}
