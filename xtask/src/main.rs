//! The project's own commands: `cargo xtask <command>`.
//!
//! | file | what |
//! |---|---|
//! | `book.rs` | the book: its pages, and following them to the letter |
//! | `bundle.rs` | what runs on a GPU machine, in one folder |
//! | `checks.rs` | every check as a named step, and the three sets of checks: `quick`, `test`, `nightly` |
//! | `conformance` | tests of other C libraries, unchanged, under `gpufs/drop_in.h` |
//! | `coverage.rs` | which lines of the core and the device crate no test reaches |
//! | `demo.rs` | the main job on real input |
//! | `device` | device code for each GPU target, and a look at what the compiler emitted |
//! | `dist` | an installable prefix for C, C++, CUDA and HIP |
//! | `fuzz.rs` | the fuzz targets, with libFuzzer |
//! | `lex.rs` | Rust as words and comments |
//! | `mutants` | changes of the core and the device crate that models and tests must catch |
//! | `python.rs` | the Python package: its wheel and its tests |
//! | `programs.rs` | C programs as GPU programs, the project's own and those of other people |
//! | `step.rs` | running a command under a time limit, and collecting what was skipped |
//! | `tidy` | what the compiler does not check: citations, lengths, layers, links |
//! | `workspace.rs` | where the workspace lies, and cargo's commands in it |

mod book;
mod bundle;
mod checks;
mod conformance;
mod coverage;
mod demo;
mod device;
mod dist;
mod fuzz;
mod lex;
mod mutants;
mod programs;
mod python;
mod sanitize;
mod step;
mod tidy;
mod workspace;

use std::process::ExitCode;

use lexopt::{Arg, Parser, ValueExt};

const HELP: &str = "\
cargo xtask <command>

Sets of checks, each with a summary of what passed, failed and was skipped:
  quick          tidy, rustfmt, clippy, the core's tests, examples in the documentation: two minutes, where cargo has built before
  test           every check below but the nightly ones; if a lint fails, the rest does not run (--keep-going: it does)
  nightly        every check, and the longer runs of those that have a length: hours

Checks, each alone:
  tidy           cited rules, proofs and decisions exist; lengths; stray atomics; imports that go upward; dead links
                 (--shrink takes out of xtask/tidy/exceptions.txt what is no longer needed)
  lint           rustfmt, clippy and rustdoc, warnings denied
  tests          unit, property and whole-stack tests
  book           the documents as a book, in target/book/html, where mdBook is
                 (follow PAGE… [--with KIND]: does what pages of docs/start say, in folders of their own; KIND: root, gpu, amd)
  loom-by-day    the ring protocol under loom: of each of its models what ten seconds explore, of nearly all everything
  device-code    device code for NVPTX and AMDGCN: it builds, and NVPTX's instructions that matter are the expected ones
  hip-runtime    the runtime for AMD GPUs: it compiles, links, and says where there is no GPU
  abi            device code for C, C++, CUDA and HIP, and HIP programs built with it by CMake, which say where there is no GPU
  python         the Python package's tests, on its wheel, where Python has NumPy and pytest
  packages       the crates that are published: each is packed, and built from that; nothing is sent
  doc-tests      the examples in the crates' documentation
  miri           the core's tests under Miri, where it is installed
  loom           loom-by-day to the end of each model: nightly, a quarter of an hour
  differential   printf and scanf against the system's (10 million cases each), streams against the system's stdio (4,000 sequences):
                 nightly, since tests has them with fewer
  other-gpus     the instructions of AMDGCN, code objects, abi for gfx90a and gfx1100, all C programs for gfx942: nightly
  mutants        each change that the tables of the loom tests name is made in a copy of the core, and must be caught, and each of
                 tests/mutants in a copy of the workspace: nightly (--only NAME, which may be repeated, and --jobs N;
                 --all-code [FILE…] tries all that cargo-mutants makes of files of the core and the device crate instead, in one build;
                 --sample N some of each file by --seed N; --seconds N is how long tests of one run until it has survived, 60;
                 --resume tries those again that survived an earlier run, and what it did not come to;
                 --build-only builds alone, and --built runs what was built, also on another machine with all of it at the same path)
  sanitize       nightly: the core's tests under AddressSanitizer and ThreadSanitizer
  sanitize-host  nightly: libgpufs and C programs under AddressSanitizer, the host's rings and threads under ThreadSanitizer
  long           nightly: threads, seeds and differential cases in larger numbers, from other seeds each day

What runs for as long as one likes:
  fuzz [TARGET] [MINUTES]
                 libFuzzer on the targets of fuzz, or one, for 10 minutes each; what it finds is kept in target/fuzz/found
  soak [MINUTES] sessions, files, streams and faults in each mode over and over, for 10 minutes: content in memory and on disk is
                 checked, and descriptors, mappings and memory are counted at the end
  coverage       the lines of the core and the device crate that no test reaches

What is built and run:
  demo           run the programs of apps/ on this machine and say what they did; takes options, such as --device cuda
                 (cargo xtask demo --help)
  bundle [cuda]  one folder with what runs on a machine that has a GPU and its driver; with cuda, without AMD's code objects
  conformance --suite musl=DIR --suite glibc=DIR [--only PART] [--folder DIR]
                 tests of stdio of other C libraries, whose sources lie in these folders, unchanged on CPU lanes: a table
                 (--build COMMAND builds them instead; with --bundle DIR for a GPU machine: --build 'gpufs build --device cuda')
  programs SOURCES PREFIX [GPU]
                 C programs of other people, whose repositories lie in the folder SOURCES under their names: built natively, for CPU lanes and
                 as cubins (for sm_90, or GPU) with the prefix that dist has made; outputs compared; target/programs is for a GPU machine
  dist DIR [cpu] [hip] [cuda] [gfx90a] [gfx942] [gfx1100]
                 an installable prefix: headers, libgpufs, CMake and pkg-config, and of libgpufs_hip and device code all, or what is named
                 (cpu: neither)
  wheel [PREFIX] the Python package's wheel, in target/wheel: with the library and the device code of a prefix that dist has made, or with
                 the library alone
";

/// Commands by the names that they had, and have now.
const RENAMED: &[(&str, &str)] =
    &[("c", "abi"), ("hip", "hip-runtime"), ("device", "device-code"), ("suites", "tests")];

fn main() -> ExitCode {
    match run(Parser::from_env()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cargo xtask: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the command that `parser` holds; whether all went well, or what is wrong with the command line.
fn run(mut parser: Parser) -> Result<bool, lexopt::Error> {
    let command = match parser.next()? {
        Some(Arg::Value(command)) => command.string()?,
        Some(Arg::Long("help") | Arg::Short('h')) => "help".to_owned(),
        Some(option) => return Err(option.unexpected()),
        None => return Err(format!("there is no command\n\n{HELP}").into()),
    };
    match command.as_str() {
        "help" => {
            print!("{HELP}");
            Ok(true)
        }
        "demo" => {
            let options = parser.raw_args()?.map(|option| option.string()).collect::<Result<Vec<_>, _>>()?;
            Ok(demo::run(&options))
        }
        "test" => {
            let keep_going = option(&mut parser, "keep-going")?;
            Ok(checks::test(keep_going))
        }
        "tidy" => {
            let shrink = option(&mut parser, "shrink")?;
            Ok(if shrink { tidy::shrink() } else { checks::named("tidy").is_some_and(|check| check()) })
        }
        "book" => book(&mut parser),
        "mutants" => mutants(&mut parser),
        "coverage" => match parser.next()? {
            None => Ok(step::summarize(&coverage::run())),
            Some(argument) => Err(argument.unexpected()),
        },
        "fuzz" => fuzz(&values(&mut parser)?),
        "soak" => soak(&values(&mut parser)?),
        "bundle" => {
            let chosen = values(&mut parser)?;
            match chosen.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                [] => Ok(bundle::run(true)),
                ["cuda"] => Ok(bundle::run(false)),
                _ => Err("bundle takes nothing, or 'cuda'".into()),
            }
        }
        "conformance" => Ok(conformance::run(&conformance_options(&mut parser)?)?),
        "programs" => match &values(&mut parser)?[..] {
            [sources, prefix] => Ok(programs::run(sources.as_ref(), prefix.as_ref(), "sm_90")),
            [sources, prefix, gpu] => Ok(programs::run(sources.as_ref(), prefix.as_ref(), gpu)),
            _ => Err("programs SOURCES PREFIX [GPU]: two folders, or those and the kind of GPU".into()),
        },
        "wheel" => match &values(&mut parser)?[..] {
            [] => Ok(python::wheel(None)),
            [prefix] => Ok(python::wheel(Some(prefix))),
            _ => Err("wheel [PREFIX]: nothing, or a folder that dist has made".into()),
        },
        "dist" => match values(&mut parser)?.split_first() {
            Some((prefix, chosen)) => Ok(dist::run(prefix, chosen)),
            None => Err("dist DIR: DIR is missing".into()),
        },
        name => {
            if let Some((old, new)) = RENAMED.iter().find(|(old, _)| *old == name) {
                return Err(format!("the command '{old}' is now '{new}'").into());
            }
            let Some(check) = checks::named(name) else {
                return Err(format!("there is no command '{name}'\n\n{HELP}").into());
            };
            if let Some(argument) = parser.next()? {
                return Err(argument.unexpected());
            }
            Ok(check())
        }
    }
}

/// `book`, or `book follow PAGE…`.
fn book(parser: &mut Parser) -> Result<bool, lexopt::Error> {
    let (mut words, mut kinds) = (Vec::new(), Vec::new());
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("with") => kinds.push(parser.value()?.string()?),
            Arg::Value(word) => words.push(word.string()?),
            other => return Err(other.unexpected()),
        }
    }
    match words.split_first() {
        None => Ok(step::summarize(&book::check())),
        Some((word, pages)) if word == "follow" && !pages.is_empty() => Ok(book::follow(pages, &kinds)),
        _ => Err("book takes nothing, or 'follow' and pages".into()),
    }
}

/// `mutants`, with its options.
fn mutants(parser: &mut Parser) -> Result<bool, lexopt::Error> {
    let (mut only, mut jobs, mut all_code) = (Vec::new(), 1, false);
    let mut chosen = mutants::Chosen::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("only") => only.push(parser.value()?.string()?),
            Arg::Long("jobs") => jobs = parser.value()?.parse()?,
            Arg::Long("all-code") => all_code = true,
            Arg::Long("sample") if all_code => chosen.sample = parser.value()?.parse()?,
            Arg::Long("seed") if all_code => chosen.seed = parser.value()?.parse()?,
            Arg::Long("seconds") if all_code => chosen.seconds = parser.value()?.parse()?,
            Arg::Long("build-only") if all_code => chosen.part = mutants::Part::Build,
            Arg::Long("built") if all_code => chosen.part = mutants::Part::Run,
            Arg::Long("resume") if all_code => chosen.resume = true,
            Arg::Value(file) if all_code => chosen.files.push(file.string()?),
            other => return Err(other.unexpected()),
        }
    }
    let report = if all_code { mutants::all_code(&chosen, jobs) } else { mutants::run(&only, jobs) };
    Ok(step::summarize(&[report]))
}

/// `fuzz [TARGET] [MINUTES]`.
fn fuzz(values: &[String]) -> Result<bool, lexopt::Error> {
    let (target, minutes) = match values {
        [] => (None, 10),
        [only] => only.parse().map_or_else(|_| (Some(only.clone()), 10), |minutes| (None, minutes)),
        [target, minutes] => (Some(target.clone()), minutes_of("fuzz", minutes)?),
        _ => return Err("fuzz [TARGET] [MINUTES]".into()),
    };
    Ok(fuzz::run(&fuzz::Options { target, minutes })?)
}

/// `soak [MINUTES]`.
fn soak(values: &[String]) -> Result<bool, lexopt::Error> {
    let minutes = match values {
        [] => 10,
        [minutes] => minutes_of("soak", minutes)?,
        _ => return Err("soak [MINUTES]".into()),
    };
    Ok(step::summarize(&[checks::soak(minutes)]))
}

fn minutes_of(command: &str, text: &str) -> Result<u64, lexopt::Error> {
    text.parse().map_err(|_| format!("{command}: '{text}' is no number of minutes").into())
}

/// The options of `conformance`.
fn conformance_options(parser: &mut Parser) -> Result<conformance::Options, lexopt::Error> {
    let mut options = conformance::Options::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("suite") => options.suite(&parser.value()?.string()?)?,
            Arg::Long("only") => options.only = parser.value()?.string()?,
            Arg::Long("build") => options.build = Some(parser.value()?.string()?),
            Arg::Long("bundle") => options.bundle = Some(parser.value()?.into()),
            Arg::Long("folder") => options.folder = Some(parser.value()?.into()),
            other => return Err(other.unexpected()),
        }
    }
    Ok(options)
}

/// Whether the rest of the command line is this option; it may be empty.
fn option(parser: &mut Parser, name: &str) -> Result<bool, lexopt::Error> {
    let mut given = false;
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long(long) if long == name => given = true,
            other => return Err(other.unexpected()),
        }
    }
    Ok(given)
}

/// What is left of the command line, where it has no options.
fn values(parser: &mut Parser) -> Result<Vec<String>, lexopt::Error> {
    let mut values = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Value(value) => values.push(value.string()?),
            option => return Err(option.unexpected()),
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(arguments: &[&str]) -> String {
        run(Parser::from_args(arguments)).expect_err("the command line is wrong").to_string()
    }

    #[test]
    fn old_names_say_the_new_ones() {
        assert_eq!(refused(&["suites"]), "the command 'suites' is now 'tests'");
        assert!(
            RENAMED.iter().all(|(old, new)| checks::named(old).is_none() && checks::named(new).is_some())
        );
    }

    #[test]
    fn wrong_command_lines_are_named() {
        assert!(refused(&[]).starts_with("there is no command\n"));
        assert!(refused(&["lints"]).starts_with("there is no command 'lints'\n"));
        assert!(refused(&["lint", "--fast"]).contains("'--fast'"));
        assert!(refused(&["test", "core"]).contains("core"));
        assert!(refused(&["bundle", "hip"]).contains("'cuda'"));
        assert!(refused(&["dist"]).contains("DIR is missing"));
        assert!(refused(&["fuzz", "formats", "long"]).contains("'long' is no number of minutes"));
        assert!(
            refused(&["fuzz", "nothing"])
                .contains("there is no fuzz target 'nothing'; there are completions")
        );
        assert!(refused(&["soak", "1", "2"]).contains("soak [MINUTES]"));
        assert!(refused(&["mutants", "file.rs"]).contains("file.rs"));
    }

    /// Each check is in the help text, and nothing else is.
    #[test]
    fn help_names_every_check() {
        let listed: Vec<_> = HELP
            .lines()
            .skip_while(|line| !line.starts_with("Checks"))
            .skip(1)
            .take_while(|line| !line.is_empty())
            .filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()))
            .collect();
        assert_eq!(listed, checks::names());
    }
}
