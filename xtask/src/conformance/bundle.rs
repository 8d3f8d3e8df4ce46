//! Programs that another command builds, and a folder of them with a script that runs them on another machine.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::attempt::{first_error, said};
use super::suites::Program;

/// The name of a built program: `gpufs build` reads from it for which device it is.
const PROGRAM: &str = "program.cubin";

/// What the script is named.
const SCRIPT: &str = "run";

/// Builds a program by a command that takes a compiler's options, into its place in a folder.
pub(crate) fn build(program: &Program, command: &str, place: &Path, name: &str) -> Result<PathBuf, String> {
    fs::create_dir_all(place).map_err(|error| format!("{}: {error}", place.display()))?;
    let output = place.join(name);
    let mut words = command.split_whitespace();
    let first = words.next().ok_or("--build names no command")?;
    let mut building = Command::new(first);
    building.args(words).arg("-Werror=implicit-function-declaration").args(&program.options);
    for folder in &program.include {
        building.arg("-I").arg(folder);
    }
    building.args(&program.sources).arg("-o").arg(&output);
    let built = building.output().map_err(|error| format!("{first}: {error}"))?;
    if built.status.success() {
        Ok(output)
    } else {
        Err(format!("does not build: {}", first_error(&said(&built))))
    }
}

/// Builds the programs into `bundle`, with a script that runs those that could be built. How many could.
pub(crate) fn make(programs: &[Program], command: &str, bundle: &Path) -> Result<usize, String> {
    let (mut built, mut table) = (0, String::new());
    for program in programs {
        let place = bundle.join(&program.name);
        match build(program, command, &place, PROGRAM) {
            Ok(_) => {
                if let Some(input) = &program.input {
                    fs::copy(input, place.join("input"))
                        .map_err(|error| format!("{}: {error}", input.display()))?;
                }
                built += 1;
                writeln!(table, "{}", program.name).expect("a string takes it");
            }
            Err(why) => writeln!(table, "#{} {why}", program.name).expect("a string takes it"),
        }
    }
    let script = bundle.join(SCRIPT);
    fs::write(bundle.join("programs"), table)
        .and_then(|()| fs::write(&script, TEXT))
        .and_then(|()| {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755))
        })
        .map_err(|error| format!("{}: {error}", bundle.display()))?;
    println!("{built} of {} programs are built; on the GPU machine: {}", programs.len(), script.display());
    Ok(built)
}

/// Runs each program in a folder of its own, under a time limit, and prints the table.
const TEXT: &str = r#"#!/usr/bin/env bash
# run ['gpufs run']: runs the programs of this folder, each in a folder of its own, and prints how each ended.
cd "$(dirname "$0")" || exit 125
here=$PWD runner=${1:-gpufs run} passed=0 failed=0 unsupported=0 unbuilt=0
while read -r name why; do
  if [[ $name == \#* ]]; then
    printf '%-46s %s\n' "${name#\#}" "$why"
    unbuilt=$((unbuilt + 1))
    continue
  fi
  place=$here/$name input=/dev/null
  rm -rf "$place/work" && mkdir -p "$place/work"
  [ -f "$place/input" ] && input=$place/input
  (cd "$place/work" && timeout -s KILL 60 $runner ../program.cubin <"$input" >../output 2>&1)
  status=$?
  case $status in
    0) passed=$((passed + 1)) ;;
    77) unsupported=$((unsupported + 1)); printf '%-46s UNSUPPORTED by its own word\n' "$name" ;;
    *)
      failed=$((failed + 1))
      told=$(tail -n 1 "$place/output" | tr -d '\0' | cut -c -110)
      printf '%-46s FAILED    exit status %s: %s\n' "$name" "$status" "$told"
      ;;
  esac
done <programs
echo "$passed passed, $failed failed, $unsupported unsupported, $unbuilt not built"
[ "$failed" = 0 ]
"#;
