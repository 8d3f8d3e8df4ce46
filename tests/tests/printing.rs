//! Printing to one shared stream.
use std::ffi::CString;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use gpufs_device::{Fs, fprintf};
use gpufs_host::{Grid, Session};

#[test]
fn ten_thousand_lanes() {
    let path = std::env::temp_dir().join("gpufs-printing");
    let name = CString::new(path.to_str().unwrap()).unwrap();
    let mut session = Session::builder().deadline(Duration::from_secs(5)).cpu().unwrap();
    let file = Mutex::new(None);
    session
        .run(Grid { blocks: 1, threads: 1 }, |tables| {
            *file.lock().unwrap() = Some(Fs::new(tables).fopen(&name, c"w").unwrap());
        })
        .unwrap();
    let out = file.lock().unwrap().unwrap();
    let start = Instant::now();
    session
        .run(Grid { blocks: 40, threads: 250 }, |_| {
            let thread = gpufs_device::warp::global_thread();
            for round in 0..100 {
                fprintf!(out, c"thread %d iter %d value %f\n", thread, round, thread as f64 * 0.5).unwrap();
            }
        })
        .unwrap();
    println!("{:?} {:?}", start.elapsed(), session.statistics());
    let text = std::fs::read_to_string(&path).unwrap();
    let mut next = vec![0; 10_000];
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let (thread, round): (usize, i32) = (words[1].parse().unwrap(), words[3].parse().unwrap());
        assert_eq!(line, format!("thread {thread} iter {round} value {:.6}", thread as f64 * 0.5));
        assert_eq!(next[thread], round);
        next[thread] += 1;
    }
    assert!(next.iter().all(|count| *count == 100));
}
