//! Each thread's line is there, once.

use std::process::Command;

#[test]
fn every_thread_prints_its_line() {
    let folder = std::env::temp_dir().join(concat!(env!("CARGO_PKG_NAME"), "-lines"));
    std::fs::create_dir_all(&folder).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_{{name}}")).current_dir(&folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let log = std::fs::read_to_string(folder.join("log.txt")).unwrap();
    let mut threads: Vec<u64> =
        log.lines().map(|line| line.strip_prefix("hello from thread ").unwrap().parse().unwrap()).collect();
    threads.sort_unstable();
    assert!(threads.into_iter().eq(0..132 * 256));
    std::fs::remove_dir_all(folder).unwrap();
}
