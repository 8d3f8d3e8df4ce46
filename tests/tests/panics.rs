//! A lane panics at a chosen warp operation of a call on a stream that other lanes use. The others end, the session closes, and every record
//! whose call returned is in the file.
//!
//! The panic comes from a lane runtime that wraps the one of CPU lanes and counts the operations of one lane. `GPUFS_CASES` says at how many
//! operations of each call the lane panics, `GPUFS_SEED` draws them.

use std::backtrace::Backtrace;
use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};

use gpufs_core::lanes::{LaneRuntime, install, runtime};
use gpufs_core::word::{DeviceWord, DeviceWord64};
use gpufs_device::{Errno, File, fprintf, warp};
use gpufs_host::cpu::Schedule;
use gpufs_host::ring::Mode;
use gpufs_host::session::SyncError;
use gpufs_host::{CpuOptions, Grid, Session};
use gpufs_tests::closures::assert_works;
use gpufs_tests::random::Random;
use gpufs_tests::returned::{RECORD_BYTES_MAX, check_but_repeated, record};
use gpufs_tests::{Scratch, once, setting, small};

/// The runtime of CPU lanes, once a lane has run.
static CPU_LANES: OnceLock<&'static LaneRuntime> = OnceLock::new();
/// The global thread whose operations are counted while it is in its call; none: [`NOBODY`].
static COUNTED: DeviceWord64 = DeviceWord64::new(NOBODY);
const NOBODY: u64 = u64::MAX;
/// How many operations it has made.
static COUNT: DeviceWord64 = DeviceWord64::new(0);
/// The operation at which it panics, counted from 1; 0: none.
static PANICS_AT: DeviceWord64 = DeviceWord64::new(0);
/// Whether the operation is done first.
static DONE_FIRST: DeviceWord = DeviceWord::new(0);

fn cpu_lanes() -> &'static LaneRuntime {
    CPU_LANES.get().expect("a lane has installed the counting runtime")
}

/// Whether the calling lane drains a ring, or has drawn tickets that it has not committed. A lane does not panic there: no code of the program
/// runs, nothing is waited for, and the lanes that wait for each other in it are in the same call. Its panic would leave the ring's poller
/// locked, or hold up what is submitted behind, so the next operation is taken.
fn holds_up_the_ring() -> bool {
    let calls = Backtrace::force_capture().to_string();
    // `12: name<of::types>` or `12: <of::a::Type>::name::<types>`; the lines between say where.
    let name = |line: &str| -> Option<String> {
        let (_, path) = line.split_once(": ")?;
        let mut depth = 0_i32;
        let mut bare = String::new();
        for letter in path.replace("->", "").chars() {
            depth += i32::from(letter == '<') - i32::from(letter == '>');
            if depth == 0 && letter != '>' {
                bare.push(letter);
            }
        }
        bare.rsplit("::").find(|part| !part.is_empty()).map(str::to_owned)
    };
    let names: Vec<String> = calls.lines().filter_map(name).collect();
    // From the ticket, which the leader tells, to the barrier in front of the commit.
    let is_submitting = |pair: &[String]| {
        ["from_leader", "sync"].contains(&&*pair[0])
            && ["transact_noting", "start", "start_chain"].contains(&&*pair[1])
    };
    names.iter().any(|name| name == "drain_after") || names.windows(2).any(is_submitting)
}

/// Counts an operation of the calling lane, and panics before or after it if it is the chosen one.
fn counted<T>(operation: impl FnOnce() -> T) -> T {
    if !(cpu_lanes().on_lane)() || warp::global_thread() != COUNTED.peek() {
        return operation();
    }
    let is_chosen = COUNT.fetch_add(1) + 1 == PANICS_AT.peek();
    if is_chosen && holds_up_the_ring() {
        PANICS_AT.set(PANICS_AT.peek() + 1);
        return operation();
    }
    let panics = || panic!("on purpose at warp operation {}", PANICS_AT.peek());
    if is_chosen && DONE_FIRST.peek() == 0 {
        panics();
    }
    let result = operation();
    if is_chosen {
        panics();
    }
    result
}

/// Counts the operations that switch lanes; passes on the others.
#[expect(unsafe_code, reason = "what is passed on is unsafe")]
static COUNTING: LaneRuntime = LaneRuntime {
    width: || (cpu_lanes().width)(),
    lane: || (cpu_lanes().lane)(),
    position: || (cpu_lanes().position)(),
    launch: || (cpu_lanes().launch)(),
    calling: |call| counted(|| (cpu_lanes().calling)(call)),
    meeting: || (cpu_lanes().meeting)(),
    collective: |lanes, meeting, what, value, argument| {
        // SAFETY:
        // - as its caller has promised
        counted(|| unsafe { (cpu_lanes().collective)(lanes, meeting, what, value, argument) })
    },
    nap: |nanoseconds| counted(|| (cpu_lanes().nap)(nanoseconds)),
    clock: || (cpu_lanes().clock)(),
    on_lane: || (cpu_lanes().on_lane)(),
    session: || (cpu_lanes().session)(),
    passes: |begins| (cpu_lanes().passes)(begins),
};

/// Installs the counting runtime. Called by each lane before anything else: a launch installs its own.
#[expect(unsafe_code, reason = "device code relies on the runtime")]
fn count_operations() {
    let _ = CPU_LANES.set(runtime());
    // SAFETY:
    // - each function is the CPU lanes' own
    unsafe { install(&COUNTING) };
}

/// Makes a call of the chosen lane, whose operations count.
fn in_call<T>(call: impl FnOnce() -> T) -> T {
    COUNTED.set(warp::global_thread());
    let result = call();
    COUNTED.set(NOBODY);
    result
}

/// The call in which a lane panics; the other lanes make the same, but for `fclose`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Fread,
    Fwrite,
    Fgets,
    Fclose,
    Fprintf,
}

impl Call {
    const ALL: [Self; 5] = [Self::Fread, Self::Fwrite, Self::Fgets, Self::Fclose, Self::Fprintf];

    fn reads(self) -> bool {
        matches!(self, Self::Fread | Self::Fgets)
    }
}

/// One launch.
#[derive(Clone, Debug)]
struct Case {
    call: Call,
    options: CpuOptions,
    grid: Grid,
    /// The global thread that panics.
    victim: u64,
    /// The operation at which it does; 0: none.
    operation: u64,
    done_first: bool,
    /// Of the records.
    style: u32,
}

/// Calls of each lane.
const ROUNDS: u32 = 12;
/// Those rounds of the victim whose operations count.
const COUNTED_ROUNDS: std::ops::Range<u32> = 2..5;
const LINES: u32 = 40_000;
const LINE_BYTES: usize = 16;

fn line(number: u32) -> String {
    format!("line {number:010}\n")
}

impl Case {
    fn drawn(call: Call, width: u32, random: &Random) -> Self {
        let schedule =
            if random.one_in(3) { Schedule::Fast } else { Schedule::Seeded(random.word_below(1 << 32)) };
        let threads = width + width / 2 + 5;
        let grid = Grid { blocks: 2, threads };
        Self {
            call,
            options: CpuOptions { width, schedule, threads: random.pick(&[1, 3]), ..CpuOptions::default() },
            grid,
            victim: random.word_below(2 * u64::from(threads)),
            operation: 0,
            done_first: random.one_in(2),
            style: 2,
        }
    }
    fn threads(&self) -> usize {
        (self.grid.blocks * self.grid.threads) as usize
    }

    /// Makes the launch in a session of its own, and checks what it left. The number of operations that counted.
    fn run(&self) -> u64 {
        let scratch = Scratch::new("panics");
        let name = scratch.c("file");
        if self.call.reads() {
            let text: String = (0..LINES).map(line).collect();
            std::fs::write(scratch.path("file"), text).unwrap();
        }
        let mut session = small().rings(2).mode(Mode::Enter).cpu_with(self.options.clone()).unwrap();
        let mode = if self.call.reads() { c"r" } else { c"w" };
        let file = once(&mut session, |fs| fs.fopen(&name, mode).unwrap());
        let found: Vec<Mutex<Found>> = (0..self.threads()).map(|_| Mutex::default()).collect();
        COUNT.set(0);
        COUNTED.set(NOBODY);
        PANICS_AT.set(self.operation);
        DONE_FIRST.set(u32::from(self.done_first));
        let outcome = session.run(self.grid, |_| {
            count_operations();
            let thread = warp::global_thread();
            let found = &found[usize::try_from(thread).unwrap()];
            for round in 0..ROUNDS {
                if !self.round(file, thread, round, found) {
                    break;
                }
            }
        });
        match outcome {
            Ok(()) => assert!(self.operation == 0 || COUNT.peek() < self.operation, "nothing panicked"),
            Err(SyncError::Kernel(error)) => {
                assert!(error.to_string().contains("on purpose at warp operation"), "{error}");
            }
            Err(other) => panic!("{other}"),
        }
        let found: Vec<Found> =
            found.into_iter().map(|one| one.into_inner().unwrap_or_else(PoisonError::into_inner)).collect();
        if self.call.reads() {
            self.check_lines(&found);
            once(&mut session, |_| {
                file.rewind();
                let mut text = [0; LINE_BYTES + 1];
                assert_eq!(file.fgets(&mut text).unwrap().unwrap().to_bytes(), line(0).as_bytes());
            });
        }
        self.close(session, file);
        if !self.call.reads() {
            let returned: Vec<u32> = found.iter().map(|found| found.returned).collect();
            let repeated = check_but_repeated(&scratch.read("file"), &returned, self.style);
            // The room of one call of the victim's warp, which nobody has filled.
            let room = if self.operation == 0 { 0 } else { self.options.width as usize * RECORD_BYTES_MAX };
            assert!(repeated <= room, "{repeated} bytes of records that are doubled");
        }
        COUNT.peek()
    }

    /// One round of a lane; false ends the lane.
    fn round(&self, file: File, thread: u64, round: u32, found: &Mutex<Found>) -> bool {
        let counts = thread == self.victim && COUNTED_ROUNDS.contains(&round);
        if self.call == Call::Fclose && counts {
            let closed = in_call(|| file.fclose());
            assert_eq!(closed, Ok(()), "the first to close the stream");
            return false;
        }
        let result =
            if counts { in_call(|| self.make(file, thread, round)) } else { self.make(file, thread, round) };
        // No warp operation is made under the lock.
        let mut found = found.lock().unwrap();
        match result {
            Ok(line) => {
                found.returned = round + 1;
                found.lines.extend(line);
                true
            }
            Err(Errno::BADF) if self.call == Call::Fclose => false,
            Err(errno) => panic!("thread {thread} round {round}: {errno}"),
        }
    }

    /// The call of a round; the number of the line that it read.
    fn make(&self, file: File, thread: u64, round: u32) -> Result<Option<u32>, Errno> {
        let mut text = [0; RECORD_BYTES_MAX];
        match self.call {
            Call::Fread => {
                let text = &mut text[..LINE_BYTES];
                let count = file.fread(text)?;
                Ok((count > 0).then(|| number_of(&text[..count])))
            }
            Call::Fgets => Ok(file.fgets(&mut text)?.map(|line| number_of(line.to_bytes()))),
            Call::Fprintf => {
                let length = record(&mut text, thread as u32, round, self.style);
                let text =
                    std::ffi::CStr::from_bytes_with_nul(&text[..=length]).expect("one NUL, at the end");
                fprintf!(file, c"%s", text).map(|_| None)
            }
            Call::Fwrite | Call::Fclose => {
                let length = record(&mut text, thread as u32, round, self.style);
                file.fwrite(&text[..length]).map(|_| None)
            }
        }
    }

    /// No line comes twice, and a lane's lines ascend.
    fn check_lines(&self, found: &[Found]) {
        let mut all = BTreeSet::new();
        for (thread, found) in found.iter().enumerate() {
            assert!(found.lines.is_sorted(), "thread {thread}: {:?}", found.lines);
            for line in &found.lines {
                assert!(all.insert(*line), "line {line} came twice, the second time to thread {thread}");
            }
        }
    }

    /// The stream is closed, other streams work, and the session ends.
    fn close(&self, mut session: Session, file: File) {
        let closed = once(&mut session, |_| file.fclose());
        let is_fine = closed.is_ok() || self.call == Call::Fclose && closed == Err(Errno::BADF);
        assert!(is_fine, "{closed:?}");
        assert_works(&mut session);
    }
}

/// What a lane's calls have given.
#[derive(Debug, Default)]
struct Found {
    /// How many have returned.
    returned: u32,
    /// The lines that they read.
    lines: Vec<u32>,
}

fn number_of(text: &[u8]) -> u32 {
    let text = std::str::from_utf8(text).expect("ASCII");
    let number = text.strip_prefix("line ").and_then(|rest| rest.strip_suffix('\n')?.parse().ok());
    number.unwrap_or_else(|| panic!("no whole line: {text:?}"))
}

/// One test, since the counters are the process's.
#[test]
fn others_go_on_when_a_lane_panics_at_any_warp_operation() {
    let (seed, cases) = (setting("GPUFS_SEED", 1), setting("GPUFS_CASES", 3));
    for (index, (call, width)) in
        Call::ALL.into_iter().flat_map(|call| [1, 4, 32].map(|width| (call, width))).enumerate()
    {
        let random = Random::of_case(seed, index as u64);
        for share in 0..cases {
            let case = Case::drawn(call, width, &random);
            // Nobody panics: how many operations there are. A seeded schedule makes the same ones again.
            let operations = case.run();
            assert!(operations > 0, "{case:?}");
            // The whole range, in as many parts as there are cases.
            let operation = 1 + (share * operations + random.word_below(operations)) / cases;
            let case = Case { operation, ..case };
            println!("{operations} operations: {case:?}");
            case.run();
        }
    }
}
