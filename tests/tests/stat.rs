//! `gpufs stat`: what it says of this process is what the session itself counted.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use gpufs_host::Grid;
use gpufs_host::ring::Mode;
use gpufs_tests::{compilers, skip, small};
use serde_json::Value;

fn stat(program: &std::path::Path, arguments: &[&str]) -> std::process::Output {
    Command::new(program).arg("stat").args(arguments).output().expect("gpufs runs")
}

/// Operations of all rings of this process, by what `gpufs stat` says of each.
fn rings(program: &std::path::Path) -> (u64, Value) {
    let me = std::process::id().to_string();
    let output = stat(program, &[&me, "--json", "--interval", "0.05", "--count", "1"]);
    assert!(output.status.success(), "{output:?}");
    let look: Value = serde_json::from_slice(&output.stdout).expect("an object");
    let sum = look["rings"].as_array().expect("rings").iter().map(|ring| {
        assert_eq!(ring["submitted"], ring["completed"], "nothing is in flight: {look}");
        ring["submitted"].as_u64().expect("a number")
    });
    (sum.sum(), look)
}

#[test]
fn what_a_session_does() {
    let program = compilers::build(&["gpufs"]).join("gpufs");
    let mut session = match small().rings(2).mode(Mode::Enter).cpu() {
        Ok(session) => session,
        Err(error) => return skip("what_a_session_does", error),
    };
    let ((before, _), counted_before) = (rings(&program), session.statistics());
    session
        .run(Grid { blocks: 8, threads: 32 }, |fs| {
            for _ in 0..10 {
                fs.nop().unwrap();
            }
        })
        .unwrap();
    let ((after, look), counted) = (rings(&program), session.statistics());
    let operations =
        |of: &gpufs_host::session::Statistics| of.rings.iter().map(|ring| ring.operations).sum::<u64>();
    let made = operations(&counted) - operations(&counted_before);
    assert_eq!((after - before, made), (2560, 2560), "{look}");
    assert_eq!(look["in_flight"], 0);
    // While it goes on.
    let me = std::process::id().to_string();
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| stat(&program, &[&me, "--interval", "0.2", "--count", "3"]));
        while !watching.is_finished() {
            session.run(Grid { blocks: 1, threads: 32 }, |fs| fs.nop().unwrap()).unwrap();
        }
        let output = watching.join().expect("it ran");
        let text = String::from_utf8(output.stdout).expect("text");
        let lines: Vec<_> = text.lines().collect();
        assert!(output.status.success() && lines.len() == 4, "{text}");
        assert!(lines[0].trim_start().starts_with("rings") && lines[0].contains("in flight"), "{text}");
        for line in &lines[1..] {
            let words: Vec<f64> =
                line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
            assert!(words.len() == 7 && words[0] >= 2.0 && words[1] > 0.0 && words[2] > 0.0, "{text}");
        }
    });
}

#[test]
fn processes_that_cannot_be_watched() {
    let program = compilers::build(&["gpufs"]).join("gpufs");
    // Numbers of processes end at 2²².
    let output = stat(&program, &["4194305"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(125) && said.contains("there is no process 4194305"), "{output:?}");
    // It has answered, so it is cat(1): a moment before, it had this process's descriptors, and among them rings of the other test.
    let mut idle = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cat(1)");
    idle.stdin.as_mut().expect("piped").write_all(b"?").expect("it reads");
    idle.stdout.as_mut().expect("piped").read_exact(&mut [0]).expect("it answers");
    let output = stat(&program, &[&idle.id().to_string(), "--interval", "0.1", "--count", "2"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    idle.kill().expect("it is a child");
    idle.wait().expect("it ends");
    assert!(output.status.success() && said.contains("has no ring of io_uring"), "{output:?}");
}
