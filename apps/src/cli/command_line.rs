//! A program's name and help, the loop over its arguments, and their values.

use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::{Arg, Parser, ValueExt};

use super::Failure;

/// What a program is, to the command line.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name, which begins each of its messages.
    pub name: &'static str,
    /// What `--help` prints.
    pub help: &'static [&'static str],
    /// Its exit status after an error.
    pub trouble: u8,
}

impl Program {
    /// Runs it: `read` reads the command line, and `work` does what that says. An error is printed after the program's name.
    pub fn main<T>(
        &self,
        read: impl FnOnce(&mut CommandLine) -> Result<T, Failure>,
        work: impl FnOnce(T) -> Result<ExitCode, Failure>,
    ) -> ExitCode {
        let mut line = CommandLine { parser: Parser::from_env(), name: self.name };
        match read(&mut line).and_then(work) {
            Ok(code) => code,
            Err(error) if error.is::<Wanted>() => {
                let text = match error.downcast_ref() {
                    Some(Wanted::Version) => format!("{} (gpufs) {}", self.name, env!("CARGO_PKG_VERSION")),
                    _ => self.help.join("\n").trim_end().to_owned(),
                };
                // A reader such as head(1) may have closed the pipe.
                let _ = writeln!(io::stdout(), "{text}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("{}: {error}", self.name);
                ExitCode::from(self.trouble)
            }
        }
    }
}

/// One argument of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given<'a> {
    /// `-c`.
    Short(char),
    /// `--class`, without its dashes.
    Long(&'a str),
    /// What is no option.
    Operand(OsString),
}

/// The arguments of a program, and the values of its options.
#[derive(Debug)]
pub struct CommandLine {
    parser: Parser,
    name: &'static str,
}

impl CommandLine {
    /// Hands every argument but `--help` and `--version` to `take`, which takes the values of options from the command line. It returns `false`
    /// for an argument that the program does not have. `-h` and `-V` ask for the same where the program has no such options.
    ///
    /// # Errors
    /// Such an argument; an error of `take`; help or the version is wanted, which [`Program::main`] answers.
    pub fn read(
        &mut self,
        mut take: impl FnMut(Given<'_>, &mut Self) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        while let Some(argument) = self.parser.next()? {
            let (shown, is_known) = match argument {
                Arg::Long("help") => return Err(Wanted::Help.into()),
                Arg::Long("version") => return Err(Wanted::Version.into()),
                Arg::Long(name) => {
                    let name = name.to_owned();
                    let is_known = take(Given::Long(&name), self)?;
                    (format!("--{name}: unknown option"), is_known)
                }
                Arg::Short(letter) => match (take(Given::Short(letter), self)?, letter) {
                    (false, 'h') => return Err(Wanted::Help.into()),
                    (false, 'V') => return Err(Wanted::Version.into()),
                    (is_known, _) => (format!("-{letter}: unknown option"), is_known),
                },
                Arg::Value(value) => {
                    let shown = format!("{}: one operand too many", value.to_string_lossy());
                    (shown, take(Given::Operand(value), self)?)
                }
            };
            if !is_known {
                return Err(self.see_help(shown));
            }
        }
        Ok(())
    }

    /// An error whose remedy the help has.
    #[must_use]
    pub fn see_help(&self, wrong: impl fmt::Display) -> Failure {
        format!("{wrong}; see {} --help", self.name).into()
    }

    /// The value of an option.
    ///
    /// # Errors
    /// It is missing.
    pub fn value(&mut self) -> Result<OsString, Failure> {
        self.parser.value().map_err(|missing| self.see_help(missing))
    }

    /// The value of an option, a path.
    ///
    /// # Errors
    /// It is missing.
    pub fn path(&mut self) -> Result<PathBuf, Failure> {
        Ok(self.value()?.into())
    }

    /// The value of an option, a text.
    ///
    /// # Errors
    /// It is missing, or no UTF-8.
    pub fn text(&mut self) -> Result<String, Failure> {
        Ok(self.value()?.string()?)
    }

    /// The value of the option `name`, a whole number.
    ///
    /// # Errors
    /// It is missing, no whole number, or too large.
    pub fn number<T: TryFrom<u64>>(&mut self, name: &str) -> Result<T, Failure> {
        let value = self.value()?;
        let text = value.to_string_lossy();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!("--{name} {text}: not a whole number, such as 4").into());
        }
        let number = text.parse::<u64>().ok().and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| format!("--{name} {text}: the number is too large").into())
    }

    /// The value of the option `name`, a size in bytes, perhaps with K, M or G for 2¹⁰, 2²⁰, 2³⁰.
    ///
    /// # Errors
    /// It is missing, or no such size.
    pub fn size(&mut self, name: &str) -> Result<usize, Failure> {
        let value = self.value()?;
        let text = value.to_string_lossy();
        let (digits, shift) = match text.as_bytes().last() {
            Some(b'K') => (&text[..text.len() - 1], 10),
            Some(b'M') => (&text[..text.len() - 1], 20),
            Some(b'G') => (&text[..text.len() - 1], 30),
            _ => (&text[..], 0),
        };
        let number = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(1 << shift));
        number.ok_or_else(|| format!("--{name} {text}: not a size in bytes, such as 65536 or 64K").into())
    }
}

/// What was asked for in the place of work.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    Help,
    Version,
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("see --help")
    }
}

impl Error for Wanted {}
