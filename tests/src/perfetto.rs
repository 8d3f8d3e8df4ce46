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

/// A message of a protocol buffer (<https://protobuf.dev/programming-guides/encoding/>), field by field: for looks at what [`read`] does not say.
#[derive(Clone, Debug, Default)]
pub struct Message(Vec<(u64, Field)>);

#[derive(Clone, Debug)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

impl Message {
    /// The message that these bytes are; `None` if they are none.
    #[must_use]
    pub fn of(mut bytes: &[u8]) -> Option<Self> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes)?;
            let field = match key & 7 {
                0 => Field::Number(varint(&mut bytes)?),
                1 => Field::Bytes(bytes.split_off(..8)?.to_vec()),
                2 => {
                    let length = usize::try_from(varint(&mut bytes)?).ok()?;
                    Field::Bytes(bytes.split_off(..length)?.to_vec())
                }
                _ => return None,
            };
            fields.push((key >> 3, field));
        }
        Some(Self(fields))
    }
    /// The number in a field: the last, if there are several.
    #[must_use]
    pub fn number(&self, field: u64) -> Option<u64> {
        self.all(field)
            .rev()
            .find_map(|value| if let Field::Number(number) = value { Some(*number) } else { None })
    }
    /// The text in a field.
    #[must_use]
    pub fn text(&self, field: u64) -> Option<String> {
        self.bytes(field).next().and_then(|text| String::from_utf8(text.to_vec()).ok())
    }
    /// Each message in a field.
    pub fn messages(&self, field: u64) -> impl Iterator<Item = Self> {
        self.bytes(field).filter_map(Self::of)
    }
    fn bytes(&self, field: u64) -> impl Iterator<Item = &[u8]> {
        self.all(field)
            .filter_map(|value| if let Field::Bytes(bytes) = value { Some(&bytes[..]) } else { None })
    }
    fn all(&self, field: u64) -> impl DoubleEndedIterator<Item = &Field> {
        self.0.iter().filter(move |(of, _)| *of == field).map(|(_, value)| value)
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.split_off_first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
