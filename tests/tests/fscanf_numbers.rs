//! `fscanf` of numbers by many lanes on one stream, on CPU lanes, where they are read ahead: beside the C library's, and of whole grids with seeds.

#![expect(unsafe_code, reason = "the C library's streams")]

use std::ffi::CString;
use std::fs;
use std::sync::Mutex;

use gpufs_core::session::SessionTables;
use gpufs_core::stream::readahead::Tokens;
use gpufs_core::word::DeviceWord;
use gpufs_device::stdio::{Buffering, Whence};
use gpufs_device::{File, Fs, fscanf, warp};
use gpufs_host::cpu::Schedule;
use gpufs_host::ring::Mode;
use gpufs_host::{Builder, CpuOptions, Grid, Session};
use gpufs_tests::random::Random;
use gpufs_tests::{Scratch, each, once, setting, small, tables_of};

fn session(builder: Builder, width: u32, schedule: Schedule) -> Session {
    builder.mode(Mode::Enter).cpu_with(CpuOptions { width, schedule, ..CpuOptions::default() }).unwrap()
}

/// Builders of sessions that do not read ahead, and that do, with few places and with many.
fn builders() -> [Builder; 3] {
    [
        small(),
        small().rings(2).ring_entries(256).read_ahead(16 << 10),
        small().assembly(64 << 10).rings(2).ring_entries(512).buffers(2 << 20).read_ahead(128 << 10),
    ]
}

/// Whether some open stream's tokens of the kind are read ahead.
fn are_tokens_open(tables: &SessionTables, kind: Tokens) -> bool {
    // Of an entry that was never used the words mean nothing.
    tables.streams().iter().any(|stream| stream.generation.peek() % 2 == 1 && stream.lines.offers(kind))
}

/// White space between two numbers; `rarely`: how rare it is more than a byte.
fn space(random: &Random, rarely: usize) -> &'static str {
    if random.one_in(rarely) {
        random.pick(&["  ", "\r\n", "\n\n", " \t \x0b\x0c ", "                                        \n"])
    } else {
        random.pick(&[" ", "\n", "\t", "\n"])
    }
}

/// A number as text: mostly one that each conversion of its kind takes as a whole; one in `odd` is none.
fn number(random: &Random, reals: bool, odd: usize) -> String {
    if random.one_in(odd) {
        return random
            .pick(&["12x", "-", "+", "1.5", ".", "3,4", "--7", "0x1f", "1e", "5e+", "abc", "7-8", "1.2.3"])
            .to_owned();
    }
    let sign = random.pick(&["", "", "", "-", "+"]);
    let integer = match random.below(12) {
        0 => format!("{}", random.below(10)),
        1 => format!("{:040}", random.bits()),
        2 => format!("{}{}", random.bits(), random.bits()),
        3 => format!("{}", random.bits()),
        _ => format!("{}", 100_000 + random.below(9_000_000)),
    };
    if !reals {
        return format!("{sign}{integer}");
    }
    let fraction = random.pick(&["", ".", ".5", ".25000000000000000000001", ".0"]);
    let exponent = random.pick(&["", "", "", "e3", "E-7", "e+12", "e400", "e-400"]);
    format!("{sign}{integer}{fraction}{exponent}")
}

/// A text of such numbers.
fn text(random: &Random, bytes: usize, reals: bool, odd: usize) -> String {
    let rarely = random.pick(&[5, 50]);
    let mut text = String::new();
    if random.one_in(3) {
        text.push_str(space(random, 2));
    }
    while text.len() < bytes {
        text.push_str(&number(random, reals, odd));
        text.push_str(space(random, rarely));
    }
    // The last one may end with the file.
    if random.one_in(3) {
        text.push_str("123456");
    }
    text
}

/// What a call came to: the count, and the bits of the targets, whose first values are 7.
type Read = (Option<usize>, [u64; 3]);

const FORMATS: usize = 6;

fn read(file: File, format: usize) -> Read {
    let mut words = [7_i32; 3];
    let mut wide = [7_i64; 3];
    let mut reals = [7.0_f64; 3];
    let mut real = 7.0_f32;
    let ([w, ..], [a, b, c], [x, y, z]) = (&mut words, &mut wide, &mut reals);
    let count = match format {
        0 => fscanf!(file, c"%d", w),
        1 => fscanf!(file, c"%ld %ld %ld", a, b, c),
        2 => fscanf!(file, c" %lu%lu", a, b),
        3 => fscanf!(file, c"%lf", x),
        4 => fscanf!(file, c"%lf %lf\n%lf", x, y, z),
        _ => fscanf!(file, c"%f", &mut real),
    };
    let got = match format {
        0 => words.map(|value| u64::from(value.cast_unsigned())),
        1 | 2 => wide.map(i64::cast_unsigned),
        3 | 4 => reals.map(f64::to_bits),
        _ => [u64::from(real.to_bits()), 0, 0],
    };
    (count.unwrap(), got)
}

/// A stream of the C library.
struct System(*mut libc::FILE);

impl System {
    fn open(path: &std::path::Path) -> Self {
        let path = CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY:
        // - strings that end; closed when dropped
        let file = unsafe { libc::fopen(path.as_ptr(), c"r".as_ptr()) };
        assert!(!file.is_null());
        Self(file)
    }
    fn read(&self, format: usize) -> Read {
        let mut words = [7_i32; 3];
        let mut wide = [7_i64; 3];
        let mut reals = [7.0_f64; 3];
        let mut real = 7.0_f32;
        let ([w, ..], [a, b, c], [x, y, z]) = (&mut words, &mut wide, &mut reals);
        let file = self.0;
        let count = match format {
            // SAFETY:
            // - an open stream, a format that ends, and a target of the conversion's type for each
            0 => unsafe { libc::fscanf(file, c"%d".as_ptr(), &raw mut *w) },
            // SAFETY:
            // - the same
            1 => unsafe {
                libc::fscanf(file, c"%ld %ld %ld".as_ptr(), &raw mut *a, &raw mut *b, &raw mut *c)
            },
            // SAFETY:
            // - the same
            2 => unsafe { libc::fscanf(file, c" %lu%lu".as_ptr(), &raw mut *a, &raw mut *b) },
            // SAFETY:
            // - the same
            3 => unsafe { libc::fscanf(file, c"%lf".as_ptr(), &raw mut *x) },
            // SAFETY:
            // - the same
            4 => unsafe {
                libc::fscanf(file, c"%lf %lf\n%lf".as_ptr(), &raw mut *x, &raw mut *y, &raw mut *z)
            },
            // SAFETY:
            // - the same
            _ => unsafe { libc::fscanf(file, c"%f".as_ptr(), &raw mut real) },
        };
        let got = match format {
            0 => words.map(|value| u64::from(value.cast_unsigned())),
            1 | 2 => wide.map(i64::cast_unsigned),
            3 | 4 => reals.map(f64::to_bits),
            _ => [u64::from(real.to_bits()), 0, 0],
        };
        (usize::try_from(count).ok(), got)
    }
    fn byte(&self) -> Option<u8> {
        // SAFETY:
        // - an open stream
        u8::try_from(unsafe { libc::fgetc(self.0) }).ok()
    }
    fn position(&self) -> u64 {
        // SAFETY:
        // - an open stream
        unsafe { libc::ftell(self.0) }.cast_unsigned()
    }
    fn seek(&self, to: u64) {
        // SAFETY:
        // - an open stream
        assert_eq!(unsafe { libc::fseek(self.0, to.cast_signed(), libc::SEEK_SET) }, 0);
    }
    fn line(&self, room: usize) -> Option<Vec<u8>> {
        let mut memory = vec![0_u8; room];
        // SAFETY:
        // - an open stream, and memory of that length
        let line = unsafe { libc::fgets(memory.as_mut_ptr().cast(), room as i32, self.0) };
        (!line.is_null()).then(|| memory.split(|byte| *byte == 0).next().unwrap().to_vec())
    }
}

impl Drop for System {
    fn drop(&mut self) {
        // SAFETY:
        // - opened by `open`, used no more
        unsafe { libc::fclose(self.0) };
    }
}

#[test]
fn lanes_that_call_together_read_as_the_c_library() {
    let scratch = Scratch::new("fscanf-system");
    let name = scratch.c("text");
    let first = setting("GPUFS_SEED", 0);
    let mut opened = 0;
    for seed in first..first + setting("GPUFS_SEQUENCES", 15) {
        let random = Random::new(seed);
        let width = random.pick(&[1, 32, 32, 64]);
        let reals = random.one_in(2);
        let odd = random.pick(&[usize::MAX, usize::MAX, 2000, 300]);
        let bytes = random.pick(&[500, 60_000, 200_000]);
        let text = text(&random, bytes, reals, odd);
        fs::write(scratch.path("text"), &text).unwrap();
        let few_formats = random.one_in(2);
        let usual = if reals { 3 + random.below(3) } else { random.below(3) };
        for (number, builder) in builders().into_iter().enumerate() {
            let random = Random::new(seed << 8 | number as u64);
            let mut session = session(builder, width, Schedule::Fast);
            let file = once(&mut session, |fs| fs.fopen(&name, c"r").unwrap());
            let system = System::open(&scratch.path("text"));
            for step in 0..120 {
                let what = format!("seed {seed}, builder {number}, step {step}, width {width}");
                match random.below(100) {
                    0 => assert_eq!(once(&mut session, |_| file.fgetc()), Ok(system.byte()), "{what}"),
                    1..4 => assert_eq!(once(&mut session, |_| file.ftell()), Ok(system.position()), "{what}"),
                    4 if random.one_in(3) => {
                        let to = random.below(text.len() + 10) as u64;
                        once(&mut session, |_| file.fseek(to as i64, Whence::Set)).unwrap();
                        system.seek(to);
                    }
                    5 => {
                        let line = once(&mut session, |_| {
                            let mut memory = [0; 50];
                            file.fgets(&mut memory).unwrap().map(|line| line.to_bytes().to_vec())
                        });
                        assert_eq!(line, system.line(50), "{what}");
                    }
                    other => {
                        let format = if few_formats || other < 90 { usual } else { random.below(FORMATS) };
                        let calling = if random.one_in(20) { random.bits() } else { u64::MAX };
                        let answers = each(&mut session, width, |_, lane| {
                            (calling >> lane & 1 == 1).then(|| read(file, format))
                        });
                        let mut stuck = false;
                        for (lane, answer) in answers.into_iter().enumerate() {
                            let wanted = (calling >> lane & 1 == 1).then(|| system.read(format));
                            assert_eq!(answer, wanted, "{what}, lane {lane}, format {format}");
                            stuck = answer.is_some_and(|(count, _)| count == Some(0));
                        }
                        let kind = if reals { Tokens::Reals } else { Tokens::Integers };
                        opened += usize::from(once(&mut session, |fs| are_tokens_open(tables_of(fs), kind)));
                        if stuck {
                            assert_eq!(once(&mut session, |_| file.fgetc()), Ok(system.byte()), "{what}");
                        }
                    }
                }
            }
            once(&mut session, |_| file.fclose()).unwrap();
        }
    }
    println!("tokens were open behind {opened} calls");
    assert!(opened > 100, "numbers were hardly ever read ahead");
}

/// The first token of a block, of which some is carried over, is a number or none as a whole: wherever it is cut, and so is what is wrong with it.
#[test]
fn what_is_no_number_is_none_across_blocks() {
    let scratch = Scratch::new("fscanf-across");
    for (shift, wrong) in (1..8).flat_map(|shift| [(shift, 7), (shift, 3)]) {
        let mut text: Vec<u8> =
            (0..2000).flat_map(|number| format!("{} ", 1_111_111 + number).into_bytes()).collect();
        // Tokens are open from behind number 127 on; the next block begins 4096 bytes behind it, within a number as another is longer.
        let begins = 128 * 8 - 1 + 4096 - 8 + shift;
        (0..shift).for_each(|_| text.insert(200 * 8, b'1'));
        assert!(text[begins] == b' ' && text[begins + 8] == b' ');
        text[begins + wrong] = b'x';
        fs::write(scratch.path("text"), &text).unwrap();
        let [.., many] = builders();
        let mut session = session(many, 32, Schedule::Fast);
        let file = once(&mut session, |fs| fs.fopen(&scratch.c("text"), c"r").unwrap());
        let system = System::open(&scratch.path("text"));
        let mut opened = 0;
        for call in 0..24 {
            let answers = each(&mut session, 32, |_, _| read(file, 0));
            for (lane, answer) in answers.into_iter().enumerate() {
                assert_eq!(answer, system.read(0), "shift {shift}, wrong {wrong}, call {call}, lane {lane}");
            }
            opened += u32::from(once(&mut session, |fs| are_tokens_open(tables_of(fs), Tokens::Integers)));
        }
        assert!(opened > 10, "numbers were hardly ever read ahead");
        once(&mut session, |_| file.fclose()).unwrap();
    }
}

/// Every thread of the grid reads numbers, so many at a time, until there are none left: what each call read.
fn read_by_all(session: &mut Session, grid: Grid, file: File, reals: bool) -> (Vec<Vec<u64>>, u32) {
    let taken = Mutex::new(Vec::new());
    let opened = &DeviceWord::new(0);
    session
        .run(grid, |fs| {
            loop {
                let (count, values) = read(file, if reals { 4 } else { 1 });
                let Some(count) = count else { break };
                taken.lock().unwrap().push(values[..count].to_vec());
                let kind = if reals { Tokens::Reals } else { Tokens::Integers };
                let open = are_tokens_open(tables_of(fs), kind);
                opened.fetch_add_relaxed(u32::from(open));
            }
        })
        .unwrap();
    (taken.into_inner().unwrap(), opened.peek())
}

#[test]
fn a_grid_reads_every_number_once() {
    let scratch = Scratch::new("fscanf-grid");
    let name = scratch.c("text");
    let first = setting("GPUFS_SEED", 0);
    let mut opened = 0;
    for seed in first..first + setting("GPUFS_SEQUENCES", 10) {
        let random = Random::new(seed);
        let width = random.pick(&[1, 32, 32, 64]);
        let reals = random.one_in(2);
        let count = random.below(if random.one_in(4) { 60_000 } else { 9000 });
        let rarely = random.pick(&[3, 30]);
        let value = |number: usize| 1_000_000 + number as u64;
        let mut text: String =
            (0..count).map(|number| format!("{}{}", value(number), space(&random, rarely))).collect();
        // The last one may end with the file; there may be more white space than a token can have.
        if random.one_in(3) {
            text.truncate(text.trim_end().len());
        }
        if random.one_in(4)
            && let Some(at) = text[text.len() / 3..].find(' ')
        {
            text.insert_str(text.len() / 3 + at, &" ".repeat(10_000));
        }
        fs::write(scratch.path("text"), &text).unwrap();
        // Every call reads three that follow each other, but for the last one.
        let bits = |number| if reals { (value(number) as f64).to_bits() } else { value(number) };
        let all: Vec<u64> = (0..count).map(bits).collect();
        let wanted: Vec<Vec<u64>> = all.chunks(3).map(<[u64]>::to_vec).collect();
        for builder in builders() {
            let schedule = if random.one_in(3) { Schedule::Fast } else { Schedule::Seeded(seed) };
            let mut session = session(builder, width, schedule);
            let file = once(&mut session, |fs| fs.fopen(&name, c"r").unwrap());
            let grid = Grid { blocks: 1 + random.below(3) as u32, threads: 1 + random.below(100) as u32 };
            let (mut taken, open) = read_by_all(&mut session, grid, file, reals);
            opened += open;
            taken.sort();
            assert!(taken == wanted, "seed {seed}, width {width}, {schedule:?}");
            assert_eq!(once(&mut session, |_| file.ftell()), Ok(text.len() as u64), "seed {seed}");
            once(&mut session, |_| file.fclose()).unwrap();
        }
    }
    println!("{opened} calls saw tokens open");
    assert!(opened > 1000, "numbers were hardly ever read ahead");
}

#[test]
fn other_calls_between_numbers_lose_nothing() {
    let scratch = Scratch::new("fscanf-mixed");
    let name = scratch.c("text");
    let first = setting("GPUFS_SEED", 0);
    for seed in first..first + setting("GPUFS_SEQUENCES", 8) {
        let random = Random::new(seed);
        let width = random.pick(&[1, 32, 32, 64]);
        // No zeros and no signs: a number that other calls have taken bytes from prints as the rest of its bytes.
        let text: String = (0..random.below(6000))
            .map(|number| format!("{}{}", 1_111_111 + number, space(&random, 20)).replace('0', "9"))
            .collect();
        fs::write(scratch.path("text"), &text).unwrap();
        let rarely = random.pick(&[20, 200, 1000]);
        for builder in builders() {
            let schedule = if random.one_in(3) { Schedule::Fast } else { Schedule::Seeded(seed) };
            let mut session = session(builder, width, schedule);
            let file = once(&mut session, |fs| fs.fopen(&name, c"r").unwrap());
            let digits = Mutex::new([0_u32; 10]);
            let count = |bytes: &[u8]| {
                let mut digits = digits.lock().unwrap();
                for byte in bytes.iter().filter(|byte| byte.is_ascii_digit()) {
                    digits[usize::from(byte - b'0')] += 1;
                }
            };
            let grid = Grid { blocks: 1 + random.below(3) as u32, threads: 1 + random.below(100) as u32 };
            session
                .run(grid, |_| {
                    let random = Random::new(seed << 32 | warp::global_thread());
                    let mut memory = [0; 100];
                    loop {
                        match random.below(4 * rarely) {
                            0 => count(file.fgetc().unwrap().as_slice()),
                            1 => assert!(file.ftell().unwrap() <= text.len() as u64),
                            2 => {
                                let got = file.fread(&mut memory[..50]).unwrap();
                                count(&memory[..got]);
                            }
                            3 => {
                                if let Some(line) = file.fgets(&mut memory).unwrap() {
                                    count(line.to_bytes());
                                }
                            }
                            other => {
                                let (mut numbers, mut stored) = ([0_i64; 2], 0);
                                let [a, b] = &mut numbers;
                                let outcome = if other % 8 == 4 && rarely == 20 {
                                    fscanf!(file, c"%ld", a).unwrap()
                                } else {
                                    fscanf!(file, c"%ld %ld", a, b).unwrap()
                                };
                                let Some(got) = outcome else { break };
                                stored += got;
                                for number in &numbers[..stored] {
                                    count(number.to_string().as_bytes());
                                }
                            }
                        }
                    }
                })
                .unwrap();
            let mut wanted = [0; 10];
            for byte in text.bytes().filter(u8::is_ascii_digit) {
                wanted[usize::from(byte - b'0')] += 1;
            }
            let digits = digits.into_inner().unwrap();
            assert_eq!(digits, wanted, "seed {seed}, width {width}, {schedule:?}");
            once(&mut session, |_| file.fclose()).unwrap();
        }
    }
}

/// A session that reads `places` blocks of 4 KiB of a stream ahead.
fn ahead(places: usize, width: u32) -> Session {
    let builder = small().ring_entries(512).buffers(2 << 20).read_ahead(places * (8 << 10));
    session(builder, width, Schedule::Fast)
}

/// What a lane alone and more lanes than there are places take goes through all places.
#[test]
fn numbers_are_taken_from_every_place() {
    let scratch = Scratch::new("fscanf-places");
    let all: Vec<u64> = (0..60_000).map(|number| 1_000_000 + number).collect();
    let text: String = all.iter().map(|number| format!("{number}\n")).collect();
    fs::write(scratch.path("text"), &text).unwrap();
    for (places, width) in [(32, 1), (32, 64), (2, 1), (2, 64)] {
        let mut session = ahead(places, width);
        let file = once(&mut session, |fs| fs.fopen(&scratch.c("text"), c"r").unwrap());
        let (mut taken, open) = read_by_all(&mut session, Grid { blocks: 1, threads: width }, file, false);
        assert!(open > 100, "{places} places, {width} lanes: numbers were hardly ever read ahead");
        taken.sort();
        assert_eq!(taken.concat(), all, "{places} places, {width} lanes");
        once(&mut session, |_| file.fclose()).unwrap();
    }
}

/// Where the last number ends that was read ahead, it ends, whatever is at the first one's place, which has no white space before it here.
#[test]
fn a_last_number_ends_with_its_token() {
    let scratch = Scratch::new("fscanf-last");
    // Numbers are read ahead from the call on after which there were enough.
    for before in 100..150 {
        let mut text = "5.25 ".repeat(before) + "1.2.3";
        let mut wanted = vec![5.25; before];
        wanted.extend([1.2, 0.3]);
        for number in 0..40 {
            text.push_str(&format!(" {}", 500_000 + number));
            wanted.push(f64::from(500_000 + number));
        }
        text.push('\n');
        fs::write(scratch.path("text"), &text).unwrap();
        let mut session = ahead(4, 1);
        let got = once(&mut session, |fs| {
            let file = fs.fopen(&scratch.c("text"), c"r").unwrap();
            let mut got = Vec::new();
            let mut number = 0.0;
            while fscanf!(file, c"%lf", &mut number).unwrap().is_some() {
                got.push(number);
            }
            file.fclose().unwrap();
            got
        });
        assert_eq!(got, wanted, "{before} before");
    }
}

/// Numbers are read ahead after many calls, and of nothing but what is buffered, seekable, and nobody's.
#[test]
fn streams_whose_numbers_stay_closed() {
    let scratch = Scratch::new("fscanf-closed");
    let text: String = (0..5000).map(|number| format!("{}\n", 1_000_000 + number)).collect();
    fs::write(scratch.path("text"), &text).unwrap();
    let mut session = ahead(4, 1);
    let calls = |fs: Fs, file, count| {
        (0..count).for_each(|_| assert_eq!(read(file, 0).0, Some(1)));
        are_tokens_open(tables_of(fs), Tokens::Integers)
    };
    once(&mut session, |fs| {
        let open = || fs.fopen(&scratch.c("text"), c"r").unwrap();
        let file = open();
        assert!(!calls(fs, file, 100), "after few calls");
        assert!(calls(fs, file, 100), "after many");
        file.fclose().unwrap();
        for buffering in [Buffering::None, Buffering::Line] {
            let file = open();
            file.setvbuf(buffering, 0).unwrap();
            assert!(!calls(fs, file, 300), "{buffering:?}");
            file.fclose().unwrap();
        }
        let file = open();
        file.flockfile().unwrap();
        assert!(!calls(fs, file, 300), "kept");
        file.funlockfile().unwrap();
        assert!(calls(fs, file, 200), "kept no more");
        file.fclose().unwrap();
    });
}
