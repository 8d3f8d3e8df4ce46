//! Requests of neighbouring lanes for neighbouring bytes go out as one operation, from staging memory that all of them share: what each lane is
//! told where that operation comes back short, and how long the memory is theirs.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

use gpufs_device::warp;
use gpufs_host::cpu::Schedule;
use gpufs_host::{CpuOptions, Grid};
use gpufs_tests::{MODES, Scratch, each, skip, small};

/// A file of the system's that one read returns in pieces, however much is asked for.
const PIECEWISE: &str = "/proc/kallsyms";

/// The lane whose bytes begin where a read has stopped asks for itself: it is at the end of the file only if it is told so by name.
#[test]
fn a_lane_behind_a_short_read_reads_on() {
    const NAME: &str = "a_lane_behind_a_short_read_reads_on";
    const MORE: usize = 100;
    let Ok(file) = File::open(PIECEWISE) else {
        return skip(NAME, format_args!("there is no {PIECEWISE}"));
    };
    let mut whole = vec![0; 1 << 20];
    let first = file.read_at(&mut whole[..64 << 10], 0).unwrap_or(0);
    let again = file.read_at(&mut whole[..first + MORE], 0).unwrap_or(0);
    let behind = file.read_at(&mut whole[first..first + MORE], first as u64).unwrap_or(0);
    if first < 2 || again != first || behind != MORE {
        return skip(NAME, format_args!("{PIECEWISE} is read as {first}, {again} and {behind} bytes"));
    }
    for mode in MODES {
        let mut session = small().mode(mode).cpu().expect("a session");
        let descriptor = session.register_file(file.try_clone().unwrap()).unwrap();
        // Where the read stops: before a lane, and in the middle of one, whose successor asks for itself.
        for split in [first, first / 2] {
            let got = each(&mut session, 2, |fs, lane| {
                let (at, bytes) = if lane == 0 { (0, split) } else { (split, first + MORE - split) };
                let mut memory = vec![0; bytes];
                let count = fs.pread(descriptor, &mut memory, at as u64).unwrap();
                memory.truncate(count);
                memory
            });
            assert_eq!(got[0], whole[..split], "{mode}");
            let wanted = if split == first { MORE } else { first - split };
            assert_eq!(got[1].len(), wanted, "{mode}: the second lane's bytes from {split} on");
            assert_eq!(got[1], whole[split..split + wanted], "{mode}");
        }
    }
}

/// Each lane's copy of staging memory is made before that memory is anyone else's.
#[test]
fn staging_memory_is_given_back_when_all_have_copied() {
    const WARPS: u32 = 8;
    const BYTES: usize = 32 << 10;
    let scratch = Scratch::new("runs");
    let pattern = |place: usize| (place / 8 % 251) as u8;
    let content: Vec<u8> = (0..WARPS as usize * 2 * BYTES).map(pattern).collect();
    fs::write(scratch.path("read"), &content).unwrap();
    for seed in 0..40 {
        // Of 64 KiB of staging memory, each warp's run takes all.
        let options = CpuOptions { width: 2, schedule: Schedule::Seeded(seed), ..CpuOptions::default() };
        let mut session = small().streams(8).buffers(128 << 10).cpu_with(options).expect("a session");
        let read = session.register_file(File::open(scratch.path("read")).unwrap()).unwrap();
        let written = session.register_file(File::create(scratch.path("written")).unwrap()).unwrap();
        let wrong = Mutex::new(Vec::new());
        let grid = Grid { blocks: WARPS, threads: 2 };
        session
            .run(grid, |fs| {
                let lane = warp::global_thread();
                let is_reader = (lane / 2).is_multiple_of(2);
                let at = lane as usize * BYTES;
                let mut memory = vec![0xff; BYTES];
                for _ in 0..32 {
                    if is_reader {
                        memory.fill(0xee);
                        let count = fs.pread(read, &mut memory, at as u64);
                        if count != Ok(BYTES) || memory != content[at..at + BYTES] {
                            wrong.lock().unwrap().push((lane, count));
                        }
                    } else if fs.pwrite(written, &memory, at as u64) != Ok(BYTES) {
                        wrong.lock().unwrap().push((lane, Ok(0)));
                    }
                }
            })
            .expect("the kernel");
        let wrong = wrong.into_inner().unwrap();
        assert!(
            wrong.is_empty(),
            "seed {seed}: lanes that got other bytes, and what they were told: {wrong:?}"
        );
    }
}
