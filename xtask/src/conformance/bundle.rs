//! Programs that another command builds, and a folder of them with a script that runs them on another machine.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::attempt::{first_error, said};
use super::ours;
use super::suites::Program;

/// The name of a program as it is built: `gpufs build` reads from it for which device it is.
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

/// Builds the programs for another machine, into `work`, and packs them into `bundle`, with a script that runs those that could be built. How
/// many could. Programs of the same source, which differ in their input, are built once.
pub(crate) fn make(programs: &[Program], command: &str, work: &Path, bundle: &Path) -> Result<usize, String> {
    // What an earlier run left is no part of this one.
    let _ = fs::remove_dir_all(work);
    fs::create_dir_all(work).map_err(system(work))?;
    let mut sources: BTreeMap<PathBuf, &Program> = BTreeMap::new();
    for program in programs {
        sources.entry(program.sources[0].clone()).or_insert(program);
    }
    let distinct: Vec<Program> = sources
        .values()
        .map(|program| {
            let mut program = (*program).clone();
            program.name = built_name(&program);
            // Headers that the C library of a GPU does not have: found after those that it has.
            program.options.extend(["-isystem".to_owned(), ours().join("gpu").display().to_string()]);
            // A macro of glibc's headers, which tests ask.
            program.options.push("-D__GNUC_PREREQ(major,minor)=1".to_owned());
            program
        })
        .collect();
    let results = super::attempted(&distinct, |program| {
        build(program, command, &work.join(&program.name), PROGRAM)
            .map_or_else(super::Ended::Failed, |_| super::Ended::Passed)
    });
    let failed: BTreeMap<_, _> = distinct
        .iter()
        .zip(&results)
        .filter_map(|(program, ended)| match ended {
            super::Ended::Failed(why) => Some((program.name.clone(), why.clone())),
            _ => None,
        })
        .collect();
    let (mut built, mut table) = (0, String::new());
    for (number, program) in programs.iter().enumerate() {
        let name = built_name(program);
        if let Some(why) = failed.get(&name) {
            writeln!(table, "#{} {why}", program.name).expect("a string takes it");
            continue;
        }
        let mut input = "-".to_owned();
        if let Some(given) = &program.input {
            input = format!("input-{number}");
            fs::copy(given, work.join(&input)).map_err(system(given))?;
        }
        let text = fs::read_to_string(&program.sources[0]).unwrap_or_default();
        let guarded = if is_wild(&text) { "guarded" } else { "free" };
        built += 1;
        writeln!(table, "{} {name} {input} {guarded}", program.name).expect("a string takes it");
    }
    fs::write(work.join("programs"), table).map_err(system(work))?;
    let script = pack(work, bundle)?;
    println!("{built} of {} programs are built; on the GPU machine: {}", programs.len(), script.display());
    Ok(built)
}

/// An error of the system's, with the path.
fn system(path: &Path) -> impl Fn(std::io::Error) -> String {
    let path = path.to_owned();
    move |error| format!("{}: {error}", path.display())
}

/// Packs a folder into `bundle`, beside the script, whose path is returned.
fn pack(work: &Path, bundle: &Path) -> Result<PathBuf, String> {
    fs::create_dir_all(bundle).map_err(system(bundle))?;
    let packed = Command::new("tar")
        .env("XZ_OPT", "--lzma2=preset=1,dict=256MiB")
        .arg("-C")
        .arg(work)
        .args(["-cJf"])
        .arg(bundle.join("programs.tar.xz"))
        .arg(".")
        .status()
        .map_err(|error| format!("tar: {error}"))?;
    if !packed.success() {
        return Err(format!("tar: {packed}"));
    }
    let script = bundle.join(SCRIPT);
    fs::write(&script, TEXT)
        .and_then(|()| {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755))
        })
        .map_err(system(&script))?;
    Ok(script)
}

/// The folder of a program as it is built: its source's name, whatever its input.
fn built_name(program: &Program) -> String {
    let suite = program.name.split('/').next().unwrap_or_default();
    format!("{suite}-{}", program.sources[0].file_stem().unwrap_or_default().to_string_lossy())
}

/// Whether a source names files of the system that it could change: such a program runs only where the system is read-only for it.
fn is_wild(source: &str) -> bool {
    let changes = ["unlink", "remove", "rename", "mkdir", "system", "popen", "truncate"];
    source.match_indices("\"/").any(|(at, _)| !source[at..].starts_with("\"/dev/"))
        && changes.iter().any(|word| source.contains(word))
}

/// Runs each program in a folder of its own, under a time limit, and prints the table.
const TEXT: &str = r#"#!/usr/bin/env bash
# run ['gpufs run'] [PROGRAMS AT ONCE]: runs the programs that lie beside this script, each in a folder of its own, and prints how each ended.
# Where a mount namespace can be made, a program may write its folder and an empty /tmp alone; where not, programs that could change other files
# are left out.
here=$(cd "$(dirname "$0")" && pwd) || exit 125
runner=${1:-gpufs run} at_once=${2:-4}
case $(readlink -f "$(command -v ${runner%% *})") in
  /tmp/*) echo "run: $runner lies in /tmp, which is empty for the tests: move it" >&2; exit 125 ;;
esac
scratch=$(mktemp -d -p /var/tmp) || exit 125
trap 'rm -rf "$scratch"' EXIT
tar -C "$scratch" -xJf "$here/programs.tar.xz" || exit 125
cd "$scratch" || exit 125
guard=
unshare -m -- true 2>/dev/null && guard=1
one() {
  local name=$1 built=$2 input=$3 kind=$4 place=$scratch/run-$5
  mkdir -p "$place/work" "$place/tmp"
  if [ "$kind" = guarded ] && [ -z "$guard" ]; then
    printf '%-58s LEFT OUT  it could change files of the system, and no mount namespace can be made\n' "$name" >"$place/row"
    return
  fi
  [ "$input" = - ] && input=/dev/null || input=$scratch/$input
  cp "$scratch/$built/program.cubin" "$place/program.cubin"
  local command='cd "$1" && shift && exec "$@"'
  [ -n "$guard" ] && command='set -e; mount --make-rprivate /; mount --bind "$1" "$1"; cd "$1"; mount --bind "$1/../tmp" /tmp
    mount -o remount,bind,ro /; shift; exec "$@"'
  timeout -s KILL 20 ${guard:+unshare -m --} bash -c "$command" guard "$place/work" $runner "$place/program.cubin" \
    <"$input" >"$place/output" 2>&1
  local status=$? told
  told=$(tail -n 1 "$place/output" | tr -d '\0' | cut -c -110)
  case $status in
    0) printf '%-58s passed\n' "$name" ;;
    77) printf '%-58s UNSUPPORTED by its own word\n' "$name" ;;
    137) printf '%-58s FAILED    did not end in 20 s: %s\n' "$name" "$told" ;;
    *) printf '%-58s FAILED    exit status %s: %s\n' "$name" "$status" "$told" ;;
  esac >"$place/row"
  rm -f "$place/program.cubin"
}
number=0
while read -r name built input kind; do
  number=$((number + 1))
  if [[ $name == \#* ]]; then
    mkdir -p "run-$number"
    printf '%-58s not built: %s\n' "${name#\#}" "$built $input $kind" >"run-$number/row"
    continue
  fi
  while [ "$(jobs -rp | wc -l)" -ge "$at_once" ]; do wait -n; done
  one "$name" "$built" "$input" "$kind" "$number" &
done <programs
wait
for row in $(seq 1 "$number"); do cat "run-$row/row"; done | tee table
awk '/ passed$/ { p++ } / FAILED / { f++ } / UNSUPPORTED / { u++ } / LEFT OUT / { l++ } / not built: / { n++ }
  END { printf "%d passed, %d failed, %d unsupported, %d left out, %d not built\n", p, f, u, l, n; exit f > 0 }' table
"#;
