//! Lanes that share one stream: records stay whole and in order, and reads share the file out without loss.

use std::collections::HashMap;
use std::ffi::CString;

use gpufs_device::file::O_RDONLY;
use gpufs_device::kernel::{Handoff, Path};
use gpufs_device::stdio::Buffering;
use gpufs_host::{CpuOptions, Grid, Schedule, Session};
use gpufs_test_kernels::{Call, Letters, Piece, RECORD, share_out, totals};

use crate::differential::places::Scratch;
use crate::random::Random;
use crate::suite::harness::{Data, Do, Harness, open};
use crate::suite::printing::{Printing, check_records, start};
use crate::suite::{Bench, Outcome};
use crate::{setting, small};

/// Records that a lane writes.
const ROUNDS: u32 = 6;

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
    fn draw(bench: &Bench, seed: u64) -> Self {
        let random = Random::new(seed);
        let drawn = Self {
            seed,
            width: random.pick(&[1, 32, 64]),
            warps: random.pick(&[1, 1, 2, 3]),
            blocks: random.pick(&[1, 2, 4, 8]),
            buffering: random.pick(&[Buffering::Full, Buffering::Full, Buffering::Line, Buffering::None]),
            buffer: random.pick(&[16, 64, 1000, 4096]),
            append: random.one_in(3),
            seeded: random.one_in(2),
        };
        if bench.is_gpu() { Self { width: 32, seeded: false, ..drawn } } else { drawn }
    }
    fn harness(self, bench: &Bench) -> Harness {
        let schedule = if self.seeded { Schedule::Seeded(self.seed) } else { Schedule::Fast };
        let builder = Session::builder()
            // The last of 64 lanes waits for all others' unbuffered writes, 20 ms each where other programs have the cores.
            .deadline(crate::patience())
            .stream_buffer(4096)
            .buffers(4 << 20)
            .blocks_per_stream(self.blocks);
        bench.with(CpuOptions { width: self.width, schedule, ..CpuOptions::default() }).open(builder)
    }
    fn grid(self) -> Grid {
        Grid { blocks: self.warps, threads: self.width }
    }
    fn open(self, harness: &mut Harness, name: &CString, mode: &std::ffi::CStr) {
        harness.must(vec![
            Do::Fopen(0, name.clone(), mode.to_owned()),
            Do::Setvbuf(0, self.buffering, self.buffer),
        ]);
    }
}

/// Every lane's records come whole, in its order, and within one call in lane order.
fn writing(bench: &Bench, setting: Setting, name: &CString) {
    let mut harness = setting.harness(bench);
    setting.open(&mut harness, name, if setting.append { c"a" } else { c"w" });
    let letters = Letters::Drawn { seed: setting.seed, far: setting.buffer >= 100 };
    let (grid, rounds) = (setting.grid(), ROUNDS);
    let printing = Printing { grid, rounds, mode: c"w", buffer: None, call: Call::Fwrite, letters };
    let report = start(&mut harness, grid, Call::Fwrite, printing.job());
    harness.synchronize().unwrap_or_else(|error| panic!("{setting:?}: {error}"));
    harness.check(&report);
    let text = std::fs::read(name.to_str().expect("a path")).expect("text");
    check_records(&text, u64::from(setting.width * setting.warps), ROUNDS, letters);
    // A GPU's lanes may part; here they call together.
    if setting.warps == 1 && !setting.seeded && !bench.is_gpu() {
        let text = String::from_utf8(text).expect("ASCII");
        let order = text.lines().map(|line| {
            let mut words = line.split(' ').map(|word| word.parse::<u32>());
            let (Some(Ok(thread)), Some(Ok(round))) = (words.next(), words.next()) else { panic!("{line}") };
            (round, thread)
        });
        assert!(order.is_sorted(), "a warp's lanes call together: {setting:?}");
    }
}

/// Reads share the file out: every part once, each whole, in every lane in the order of the file.
fn reading(bench: &Bench, setting: Setting, name: &CString, lines: bool) {
    // Without a buffer a line is read byte by byte.
    let count = if setting.buffering == Buffering::None || setting.seeded { 200 } else { 4000_u32 };
    let text: String = (0..count).map(|number| format!("{number:07}\n")).collect();
    std::fs::write(name.to_str().expect("a path"), &text).expect("a file");
    let mut harness = setting.harness(bench);
    setting.open(&mut harness, name, c"r");
    let room = count as usize * size_of::<Piece>();
    harness.reserve(room + 4096);
    let (pieces, report) = (harness.take(room), harness.report());
    let arguments = share_out::Arguments {
        handle: harness.handle(0),
        lines: u32::from(lines),
        seed: setting.seed,
        pieces,
        room: count,
        report: report.handle(),
    };
    harness.keep_arena();
    harness.session.start::<share_out::Entry>(setting.grid(), arguments).expect("a launch");
    harness.synchronize().unwrap_or_else(|error| panic!("{setting:?}: {error}"));
    let taken = harness.check(&report);
    let (mut all, mut last) = (Vec::new(), HashMap::new());
    for index in 0..u64::from(taken) {
        let piece: Piece = harness.read(pieces + index * size_of::<Piece>() as u64);
        let numbers = piece.first..piece.first + piece.count;
        let before = last.insert(piece.thread, numbers.end);
        assert!(before <= Some(numbers.start), "in the order of the file: {setting:?}");
        all.extend(numbers);
    }
    all.sort_unstable();
    assert_eq!(text.len(), all.len() * RECORD, "{setting:?}");
    assert!(all.into_iter().eq(0..count), "{setting:?}");
}

/// `GPUFS_SHARED` settings.
pub fn lanes_share_a_stream(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("shared");
    for seed in 0..setting("GPUFS_SHARED", 12) {
        let drawn = Setting::draw(bench, seed);
        println!("{drawn:?}");
        let path = |what: &str| scratch.path().join(format!("{what}{seed}"));
        let name = |what: &str| crate::c_path(&path(what));
        writing(bench, drawn, &name("w"));
        reading(bench, drawn, &name("r"), false);
        reading(bench, drawn, &name("l"), true);
        for what in ["w", "r", "l"] {
            std::fs::remove_file(path(what)).expect("removed");
        }
    }
    Outcome::Passed
}

/// Warps whose lanes copy together read through few staging buffers: none gives one back that others of its lanes still copy from.
pub fn reads_share_few_buffers(bench: &Bench) -> Outcome {
    const BYTES: usize = 8192;
    const LANES: u32 = 256;
    let scratch = Scratch::new("few-buffers");
    let path = scratch.path().join("file");
    let content: Vec<u8> = (0..u32::from(u8::MAX) * 1024)
        .flat_map(|word| word.wrapping_mul(0x9e37_79b9).to_le_bytes())
        .collect();
    std::fs::write(&path, &content).expect("a file");
    let places = content.len() / BYTES;
    for width in [32, 64] {
        let builder = small().assembly(256 << 10).buffers(128 << 10).ring_entries(256);
        let mut harness = bench.with(CpuOptions { width, ..CpuOptions::default() }).open(builder);
        harness.data = Data::Device;
        harness.must(vec![open(0, &crate::c_path(&path), O_RDONLY)]);
        for round in 0..bench.sized(20, 1) as usize {
            let place = |lane: u32| (lane as usize * 7 + round) % places * BYTES;
            let scripts = (0..LANES).map(|lane| vec![Do::Pread(0, BYTES, place(lane) as u64)]).collect();
            for (lane, answers) in (0..).zip(harness.each(scripts)) {
                assert_eq!(
                    answers[0].result(),
                    Ok(BYTES as i64),
                    "width {width}, round {round}, lane {lane}"
                );
                let wanted = &content[place(lane)..place(lane) + BYTES];
                assert!(answers[0].bytes[..BYTES] == *wanted, "width {width}, round {round}, lane {lane}");
            }
        }
    }
    std::fs::remove_file(&path).expect("removed");
    Outcome::Passed
}

/// Threads read a file each by way of `embedded_io`, with a parser that knows no gpufs, and print to one stream.
pub fn csv_files_by_a_crate_of_others(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("csv");
    let files = bench.sized(100, 10);
    let mut expected = Vec::new();
    for file in 0..files {
        let (mut text, mut sum) = ("name,amount,\"a note\"\r\n".to_owned(), 0);
        for record in 0..i64::from(file % 61) {
            let amount = record * 7919 - i64::from(file) * 1000;
            // It looks like records, if quotes are not minded; some are longer than what a thread reads at once.
            let note = "no,1,\"\"\n2,".repeat((record % 5 * 70).unsigned_abs() as usize);
            text += &format!("item {record},\"{amount}\",\"{note}\"\n");
            sum += amount;
        }
        std::fs::write(scratch.path().join(format!("{file}.csv")), text).expect("a file");
        expected.push(format!("{file} {} {sum}", file % 61));
    }
    let mut session = bench.open(small().files(1024)).session;
    let output = session.fopen(scratch.path().join("totals"), "w").expect("a stream");
    let folder = session.place(Path::new(&crate::c_path(scratch.path())).expect("a path")).expect("placed");
    let failed = session.place(Handoff::default()).expect("placed");
    let arguments =
        totals::Arguments { folder: folder.handle(), files, column: 1, output, failed: failed.handle() };
    let grid = Grid { blocks: bench.sized(2, 4), threads: 64 };
    session.start::<totals::Entry>(grid, arguments).expect("a launch");
    session.synchronize().expect("a kernel");
    session.fclose(output).expect("closed");
    assert_eq!(session.fetch(&failed).expect("fetched").get(), None);
    let text = std::fs::read_to_string(scratch.path().join("totals")).expect("text");
    let mut lines: Vec<_> = text.lines().map(ToOwned::to_owned).collect();
    lines.sort_unstable();
    expected.sort_unstable();
    assert!(text.ends_with('\n') && lines == expected, "a sum differs");
    Outcome::Passed
}
