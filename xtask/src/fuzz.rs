//! Fuzzing with libFuzzer, for as long as one likes: the targets of `fuzz`, instrumented by the stable compiler.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::step::{self, Report};
use crate::workspace::{cargo, minutes, root, target_directory};

/// What `fuzz` takes.
#[derive(Debug)]
pub(crate) struct Options {
    /// The target, or all.
    pub(crate) target: Option<String>,
    /// For how long, each.
    pub(crate) minutes: u64,
}

/// Coverage as libFuzzer counts it, and `--cfg fuzzing`, which shows targets that need what is private. `cargo fuzz` says the same.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions";
/// Targets whose code runs on one stack only: AddressSanitizer does not know of fibers.
const WITHOUT_FIBERS: &[&str] = &["formats", "scans", "recovery", "completions"];

/// The names of the targets, from their programs.
pub(crate) fn targets() -> Result<Vec<String>, String> {
    let folder = root().join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut names: Vec<_> = entries
        .flatten()
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".rs")?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

/// Fuzzes; whether nothing was found.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    let all = targets()?;
    let chosen: Vec<_> =
        all.iter().filter(|name| options.target.as_ref().is_none_or(|t| t == *name)).collect();
    if chosen.is_empty() {
        let wanted = options.target.clone().unwrap_or_default();
        return Err(format!("there is no fuzz target '{wanted}'; there are {}", all.join(", ")));
    }
    let reports: Vec<_> =
        chosen.into_iter().map(|name| fuzz(name, Duration::from_secs(60 * options.minutes))).collect();
    Ok(step::summarize(&reports))
}

/// Builds one target and runs it. New inputs are kept in `target/fuzz/corpus`, and what fails in `target/fuzz/found`.
fn fuzz(name: &str, time: Duration) -> Report {
    let address = WITHOUT_FIBERS.contains(&name);
    let folder = if address { "fuzz/address" } else { "fuzz/plain" };
    let triple = "x86_64-unknown-linux-gnu";
    let mut build = cargo(&format!(
        "build --release -p gpufs-fuzz --features libfuzzer --bin {name} --target {triple} --target-dir target/{folder}"
    ));
    let flags = if address { format!("{FLAGS} -Zsanitizer=address") } else { FLAGS.to_owned() };
    // A comparison in the C library's place must not be taken for the library's own.
    build.env("RUSTFLAGS", flags).env("RUSTC_BOOTSTRAP", "1");
    let built = step::run("fuzz target", &mut build, minutes(20));
    if built.failed() {
        return built;
    }
    let (corpus, found) = (root().join("target/fuzz/corpus").join(name), root().join("target/fuzz/found"));
    for folder in [&corpus, &found] {
        if let Err(error) = std::fs::create_dir_all(folder) {
            let why = format!("{}: {error}", folder.display());
            return step::in_process("fuzz target", || Err(why));
        }
    }
    let program = target_directory().join(folder).join(triple).join("release").join(name);
    let mut command = libfuzzer(&program, &found, name, time);
    command.arg(&corpus).arg(root().join("fuzz/corpus").join(name));
    step::run(Box::leak(format!("fuzz {name}").into_boxed_str()), &mut command, time + minutes(5))
}

fn libfuzzer(program: &Path, found: &Path, name: &str, time: Duration) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command.arg(format!("-max_total_time={}", time.as_secs()));
    command.arg(format!("-artifact_prefix={}/{name}-", found.display()));
    command.args(["-timeout=60", "-rss_limit_mb=4096", "-max_len=4096", "-print_final_stats=1"]);
    command.env("ASAN_OPTIONS", "detect_leaks=0:allocator_may_return_null=1").env("RUST_BACKTRACE", "1");
    command
}
