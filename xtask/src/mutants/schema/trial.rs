//! Tests of the copy, run one at a time: first without a mutant, for how long each takes and which mutants' places it reaches; then, for each
//! mutant, those that reach it, the shortest first, until one fails.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{fs, thread};

use super::build::{ENVIRONMENT, Program};

/// A test that takes longer without a mutant is left out.
const TEST_SECONDS_MAX: u64 = 30;
/// What a test's processes may have of addresses, in KiB, and of a file, in blocks of 512 bytes: a mutant may ask for anything.
const LIMITS: &str = "ulimit -v 67108864 -f 16777216";

/// A test of a program.
#[derive(Clone, Debug)]
pub(super) struct Test {
    program: Program,
    name: String,
    /// How long it takes without a mutant.
    pub(super) seconds: f64,
    /// Of each mutant, whether its place is reached.
    reached: Vec<bool>,
}

impl Test {
    /// Its program and its name.
    pub(super) fn full_name(&self) -> String {
        format!("{} {}", self.program.name, self.name)
    }
}

/// How a mutant fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// This test failed.
    Caught(String),
    /// This test did not end in time.
    Hung(String),
    /// So many tests passed, of those that reach its place.
    Survived(usize, usize),
    /// No test reaches its place.
    Unreached,
}

/// How a test ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Passed,
    Failed,
    Late,
}

/// `each` of the numbers below `count`, so many at a time.
fn shared_out(count: usize, jobs: usize, each: impl Fn(usize) + Sync) {
    let left = Mutex::new(0..count);
    let next = || left.lock().expect("nobody panics while it is held").next();
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, count.max(1)) {
            scope.spawn(|| std::iter::from_fn(next).for_each(&each));
        }
    });
}

/// Runs a test with an environment.
fn run(program: &Program, name: &str, limit: Duration, environment: &[(&str, String)]) -> End {
    let mut command = Command::new("sh");
    let line = format!("{LIMITS}; exec timeout -s KILL \"$@\"");
    command.args(["-c", &line, "sh", &format!("{:.2}", limit.as_secs_f64())]).arg(&program.path);
    command.args(["--exact", name]).current_dir(&program.folder);
    command.env("CARGO_MANIFEST_DIR", &program.folder).env("RUST_BACKTRACE", "0").envs(ENVIRONMENT);
    command.envs(environment.iter().map(|(key, value)| (*key, value.as_str())));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = Instant::now();
    match command.status() {
        Ok(status) if status.success() => End::Passed,
        Ok(_) if started.elapsed() >= limit => End::Late,
        _ => End::Failed,
    }
}

/// The names of a program's tests.
fn names(program: &Program) -> Vec<String> {
    let mut command = Command::new(&program.path);
    let output = command.args(["--list", "--format", "terse"]).current_dir(&program.folder).output();
    let said = output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).into());
    said.lines().filter_map(|line| Some(line.strip_suffix(": test")?.to_owned())).collect()
}

/// The tests of these programs that pass without a mutant, and in time, shortest first; those that do not are said. Each may try twice: the first
/// may be the one that builds what others use.
pub(super) fn tests(programs: &[Program], mutants: usize, jobs: usize, folder: &Path) -> Vec<Test> {
    let mut left: Vec<(&Program, String)> = programs
        .iter()
        .flat_map(|program| names(program).into_iter().map(move |name| (program, name)))
        .collect();
    let tests = Mutex::new(Vec::new());
    for limit in [5 * TEST_SECONDS_MAX, TEST_SECONDS_MAX] {
        let again = Mutex::new(Vec::new());
        shared_out(left.len(), jobs, |index| {
            let (program, name) = &left[index];
            let here = folder.join(format!("reached-{index}"));
            match tried(program, name, (mutants, Duration::from_secs(limit)), &here) {
                Some(test) if test.seconds < TEST_SECONDS_MAX as f64 => {
                    tests.lock().expect("nobody panics while it is held").push(test);
                }
                _ => again.lock().expect("nobody panics while it is held").push(left[index].clone()),
            }
        });
        left = again.into_inner().expect("nobody panics while it is held");
    }
    for (program, name) in left {
        println!(
            "left out, as it fails without a mutant or takes longer than {TEST_SECONDS_MAX} s: {} {name}",
            program.name
        );
    }
    let mut tests = tests.into_inner().expect("nobody panics while it is held");
    tests.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    tests
}

/// Runs a test without a mutant.
fn tried(program: &Program, name: &str, (mutants, limit): (usize, Duration), folder: &Path) -> Option<Test> {
    let environment =
        [("GPUFS_MUTANT", "record".to_owned()), ("GPUFS_MUTANTS_REACHED", folder.display().to_string())];
    let _ = fs::remove_dir_all(folder);
    let _ = fs::create_dir_all(folder);
    let started = Instant::now();
    let end = run(program, name, limit, &environment);
    let seconds = started.elapsed().as_secs_f64();
    let reached = reached(folder, mutants);
    let _ = fs::remove_dir_all(folder);
    (end == End::Passed).then(|| Test { program: program.clone(), name: name.to_owned(), seconds, reached })
}

/// What the processes of a test say that they reached.
fn reached(folder: &Path, mutants: usize) -> Vec<bool> {
    let mut all = vec![false; mutants];
    let files = fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    for bytes in files.filter_map(|path: PathBuf| fs::read(path).ok()) {
        all.iter_mut().zip(bytes).for_each(|(place, byte)| *place |= byte != 0);
    }
    all
}

/// Tries these mutants; each is told to `ended` as it ends. The tests of one that none catches run for `budget` together.
pub(super) fn trials(
    numbers: &[u32],
    tests: &[Test],
    (jobs, budget): (usize, Duration),
    ended: impl Fn(u32, &Fate) + Sync,
) {
    shared_out(numbers.len(), jobs, |index| {
        let number = numbers[index];
        ended(number, &fate(number, tests, budget));
    });
}

fn fate(number: u32, tests: &[Test], budget: Duration) -> Fate {
    let reaching: Vec<&Test> = tests.iter().filter(|test| test.reached[number as usize]).collect();
    if reaching.is_empty() {
        return Fate::Unreached;
    }
    let environment = [("GPUFS_MUTANT", number.to_string())];
    let started = Instant::now();
    for (passed, test) in reaching.iter().enumerate() {
        if passed > 0 && started.elapsed() > budget {
            return Fate::Survived(passed, reaching.len());
        }
        // A machine that does other things as well is slower.
        let limit = Duration::from_secs_f64(3.0 + 8.0 * test.seconds);
        match run(&test.program, &test.name, limit, &environment) {
            End::Passed => {}
            End::Failed => return Fate::Caught(test.full_name()),
            End::Late => return Fate::Hung(test.full_name()),
        }
    }
    Fate::Survived(reaching.len(), reaching.len())
}
