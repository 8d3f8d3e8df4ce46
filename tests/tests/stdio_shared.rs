//! Lanes that share one stream: records stay whole and in order, and reads share the file out without loss.

use std::collections::HashMap;
use std::ffi::CString;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use gpufs_device::stdio::Buffering;
use gpufs_device::{File, Fs};
use gpufs_host::{CpuOptions, Grid, Schedule, Session};
use gpufs_tests::differential::places::Scratch;
use gpufs_tests::once;
use gpufs_tests::random::Random;

/// Records that a lane writes.
const ROUNDS: usize = 6;

/// How a stream is set up and who uses it.
#[derive(Clone, Copy, Debug)]
struct Setting {
    seed: u64,
    width: u32,
    warps: u32,
    blocks: u32,
    buffering: Buffering,
    buffer: usize,
    append: bool,
    seeded: bool,
}

impl Setting {
    fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed);
        Self {
            seed,
            width: random.pick(&[1, 32, 64]),
            warps: random.pick(&[1, 1, 2, 3]),
            blocks: random.pick(&[1, 2, 4, 8]),
            buffering: random.pick(&[Buffering::Full, Buffering::Full, Buffering::Line, Buffering::None]),
            buffer: random.pick(&[16, 64, 1000, 4096]),
            append: random.one_in(3),
            seeded: random.one_in(2),
        }
    }
    fn session(self) -> Session {
        let schedule = if self.seeded { Schedule::Seeded(self.seed) } else { Schedule::Fast };
        Session::builder()
            .deadline(Duration::from_secs(10))
            .stream_buffer(4096)
            .buffers(4 << 20)
            .blocks_per_stream(self.blocks)
            .cpu_with(CpuOptions { width: self.width, schedule, ..CpuOptions::default() })
            .expect("a session")
    }
    fn lanes(self) -> u32 {
        self.width * self.warps
    }
}

/// Opens the stream in one lane.
fn open(session: &mut Session, setting: Setting, name: &CString, mode: &CString) -> File {
    let file = Mutex::new(None);
    session
        .run(Grid { blocks: 1, threads: 1 }, |tables| {
            let opened = Fs::new(tables).fopen(name, mode).expect("opened");
            opened.setvbuf(setting.buffering, setting.buffer).expect("set");
            *file.lock().expect("no panic") = Some(opened);
        })
        .expect("a run");
    file.into_inner().expect("no panic").expect("opened")
}

/// Every lane's records come whole, in its order, and within one call in lane order.
fn writing(setting: Setting, name: &CString) {
    let mut session = setting.session();
    let mode = CString::new(if setting.append { "a" } else { "w" }).expect("no NUL");
    let out = open(&mut session, setting, name, &mode);
    session
        .run(Grid { blocks: setting.warps, threads: setting.width }, |_| {
            let thread = gpufs_device::warp::global_thread();
            let mut random = Random::new(setting.seed ^ (thread << 32));
            for round in 0..ROUNDS {
                let mut record = format!("{thread} {round} ");
                let length = random.pick(if setting.buffer < 100 {
                    &[0, 1, 5, 30, 100]
                } else {
                    &[0, 1, 5, 30, 200, 3000]
                });
                let _ = writeln!(record, "{length}{:x>length$}", "");
                assert_eq!(out.fwrite(record.as_bytes()), Ok(record.len()));
            }
        })
        .expect("a run");
    let text = std::fs::read_to_string(name.to_str().expect("a path")).expect("text");
    let mut next = HashMap::new();
    let mut order = Vec::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let mut number = || words.next().expect("a word").to_owned();
        let (thread, round, rest) = (number(), number(), number());
        let length: usize = rest.trim_end_matches('x').parse().expect("a length");
        assert_eq!(rest, format!("{length}{}", "x".repeat(length)), "{setting:?}");
        let (thread, round): (u32, usize) = (thread.parse().expect("one"), round.parse().expect("one"));
        let expected = next.entry(thread).or_insert(0);
        assert_eq!(round, *expected, "{setting:?}");
        *expected += 1;
        order.push((round, thread));
    }
    assert_eq!(order.len(), ROUNDS * setting.lanes() as usize, "{setting:?}");
    if setting.warps == 1 && !setting.seeded {
        assert!(order.is_sorted(), "a warp's lanes call together: {setting:?} {order:?}");
    }
}

/// Reads share the file out: every part once, each whole, in every lane in the order of the file.
fn reading(setting: Setting, name: &CString, lines: bool) {
    // Without a buffer a line is read byte by byte.
    let count = if setting.buffering == Buffering::None || setting.seeded { 200 } else { 4000_u32 };
    let text: String = (0..count).map(|number| format!("{number:07}\n")).collect();
    std::fs::write(name.to_str().expect("a path"), &text).expect("a file");
    let mut session = setting.session();
    let input = open(&mut session, setting, name, &CString::new("r").expect("no NUL"));
    let taken = Mutex::new(Vec::new());
    session
        .run(Grid { blocks: setting.warps, threads: setting.width }, |_| {
            let thread = gpufs_device::warp::global_thread();
            let mut random = Random::new(setting.seed ^ (thread << 32));
            let mut mine = Vec::new();
            loop {
                let records = if lines { 1 } else { random.pick(&[1, 2, 3, 50]) };
                let mut memory = vec![0; records * 8 + usize::from(lines)];
                let bytes = if lines {
                    input.fgets(&mut memory).expect("read").map_or(0, |line| line.count_bytes())
                } else {
                    input.fread(&mut memory).expect("read")
                };
                if bytes == 0 {
                    break;
                }
                let text = std::str::from_utf8(&memory[..bytes]).expect("digits");
                let numbers: Vec<u32> = text.lines().map(|line| line.parse().expect("a number")).collect();
                assert_eq!(bytes, numbers.len() * 8);
                assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "one call, one piece");
                mine.extend(numbers);
            }
            assert!(mine.is_sorted(), "in the order of the file: {setting:?}");
            assert!(input.feof());
            taken.lock().expect("no panic").extend(mine);
        })
        .expect("a run");
    let mut taken = taken.into_inner().expect("no panic");
    taken.sort_unstable();
    assert!(taken.into_iter().eq(0..count), "{setting:?}");
}

#[test]
fn lanes_share_a_stream() {
    let cases = std::env::var("GPUFS_SHARED").map_or(12, |text| text.parse().expect("a number"));
    let scratch = Scratch::new("shared");
    for seed in 0..cases {
        let setting = Setting::draw(seed);
        println!("{setting:?}");
        let path = |what: &str| scratch.path().join(format!("{what}{seed}"));
        let name =
            |what: &str| CString::new(path(what).into_os_string().into_encoded_bytes()).expect("no NUL");
        writing(setting, &name("w"));
        reading(setting, &name("r"), false);
        reading(setting, &name("l"), true);
        for what in ["w", "r", "l"] {
            std::fs::remove_file(path(what)).expect("removed");
        }
    }
}

/// Blocks of a serial stream go out one after the other, each through the ring of the warp that filled it; who flushes them drains
/// the ring that the first is on.
#[test]
fn a_serial_stream_over_several_rings_is_flushed() {
    for _ in 0..10 {
        let mut session = Session::builder()
            .rings(2)
            .deadline(Duration::from_secs(10))
            .stream_buffer(4096)
            .buffers(1 << 20)
            .cpu()
            .expect("a session");
        let file = once(&mut session, |fs| fs.fopen(c"/dev/null", c"w").expect("/dev/null"));
        session
            .run(Grid { blocks: 4, threads: 64 }, |_| {
                for _ in 0..8 {
                    file.fwrite(&[b'x'; 100]).expect("a record");
                }
            })
            .expect("everything written");
    }
}
