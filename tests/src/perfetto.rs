//! A reader of traces that is not this project's: Perfetto's definitions of the format, in Python's package `perfetto`, by the script
//! `tests/trace/read.py`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

/// What a trace holds.
#[derive(Clone, Debug)]
pub struct Read {
    /// Packets.
    pub packets: u64,
    counts: Value,
    sums: Value,
    largest: Value,
    /// What a reader would pass over.
    pub errors: Vec<String>,
    /// Pairs of times of two clocks.
    pub snapshots: u64,
    /// Names of tracks, each once.
    pub tracks: Vec<String>,
    /// Nanoseconds of the earliest event, by the host's clock.
    pub first: u64,
    /// Likewise of the last.
    pub last: u64,
}

impl Read {
    /// How many events of a kind (`begin`, `end`, `instant`, `counter`) have a name; an end has none.
    #[must_use]
    pub fn count(&self, kind: &str, name: &str) -> u64 {
        self.counts[format!("{kind} {name}")].as_u64().unwrap_or(0)
    }
    /// The sum of a value of all events of a name; of a counter's the value is called `value`.
    #[must_use]
    pub fn sum(&self, name: &str, value: &str) -> f64 {
        self.sums[format!("{name} {value}")].as_f64().unwrap_or(f64::NAN)
    }
    /// The largest value of a counter, of all its tracks of that name; of one that only grows, the last.
    #[must_use]
    pub fn largest(&self, counter: &str) -> f64 {
        self.largest[counter].as_f64().unwrap_or(f64::NAN)
    }
}

/// The folder with the package, put there if it is not; or why there is none.
///
/// # Errors
/// What the package's installation said.
pub fn reader() -> Result<&'static Path, &'static str> {
    static FOLDER: LazyLock<Result<PathBuf, String>> = LazyLock::new(install);
    FOLDER.as_deref().map_err(String::as_str)
}

/// The versions that the test was written with.
const PACKAGES: [&str; 2] = ["perfetto==0.59.1", "protobuf==7.36.2"];

fn install() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let folder = target.join("perfetto-0.59.1");
    if folder.is_dir() {
        return Ok(folder);
    }
    // Others may do the same: who is first moves a whole folder there.
    let own = target.join(format!("perfetto-{}", std::process::id()));
    let output = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", "--target"])
        .arg(&own)
        .args(PACKAGES)
        .output()
        .map_err(|error| format!("python3: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("Python's package perfetto: {}", said.lines().last().unwrap_or("not installed")));
    }
    if std::fs::rename(&own, &folder).is_err() {
        let _ = std::fs::remove_dir_all(&own);
    }
    if folder.is_dir() { Ok(folder) } else { Err(format!("{} cannot be made", folder.display())) }
}

/// Reads a trace.
///
/// # Errors
/// What the reader said.
///
/// # Panics
/// If there is no [`reader`].
pub fn read(path: &Path) -> Result<Read, String> {
    let folder = reader().expect("asked for before");
    let output = Command::new("python3")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("trace/read.py"))
        .arg(path)
        .env("PYTHONPATH", folder)
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let said: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let number = |name: &str| said[name].as_u64().ok_or_else(|| format!("no {name} in {said}"));
    let texts = |name: &str| {
        let texts = said[name].as_array().ok_or_else(|| format!("no {name} in {said}"))?;
        Ok::<_, String>(texts.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    };
    Ok(Read {
        packets: number("packets")?,
        errors: texts("errors")?,
        snapshots: number("snapshots")?,
        tracks: texts("tracks")?,
        first: number("first")?,
        last: number("last")?,
        counts: said["counts"].clone(),
        sums: said["sums"].clone(),
        largest: said["largest"].clone(),
    })
}
