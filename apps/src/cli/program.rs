//! A program's command line, read by clap: its messages, its help and version, its manual page and completions for shells.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command, Parser};
use clap_complete::Shell;
use clap_mangen::Man;

use super::Failure;

/// What help consists of, and in which order.
const HELP: &str = "{usage-heading} {usage}\n\n{about}\n\n{all-args}{after-help}";
/// Options that every program has and no help shows.
const MAN: &str = "generate-man";
const COMPLETIONS: &str = "generate-completions";

/// What a program is, beside what its command line can hold.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name, which begins each of its messages.
    pub name: &'static str,
    /// What it says where an operand is missing, such as "a SOURCE and a TARGET are needed". Empty where it needs none.
    pub needs: &'static str,
    /// Its exit status after an error.
    pub trouble: u8,
}

impl Program {
    /// Runs it: `work` does what the command line says. An error is printed after the program's name.
    pub fn main<T: Parser>(&self, work: impl FnOnce(T) -> Result<ExitCode, Failure>) -> ExitCode {
        let command = self.command::<T>();
        let hidden = |name| Arg::new(name).long(name).hide(true).exclusive(true);
        let all = command
            .clone()
            .arg(hidden(MAN).action(ArgAction::SetTrue))
            .arg(hidden(COMPLETIONS).value_name("SHELL").value_parser(clap::value_parser!(Shell)));
        let mut matches = match all.try_get_matches() {
            Ok(matches) => matches,
            Err(help) if !help.use_stderr() => {
                // A reader such as head(1) may have closed the pipe.
                let _ = help.print();
                return ExitCode::SUCCESS;
            }
            Err(error) => return self.fail(&self.explain(&error)),
        };
        if let Some(text) = self.generated(command, &matches) {
            let _ = io::stdout().write_all(&text);
            return ExitCode::SUCCESS;
        }
        let line = T::from_arg_matches_mut(&mut matches).map_err(|error| self.explain(&error).into());
        line.and_then(work).unwrap_or_else(|error| self.fail(&error.to_string()))
    }

    /// What is wrong, and that the help has the remedy.
    fn with_hint(&self, wrong: &str) -> String {
        format!("{wrong}; see {} --help", self.name)
    }

    fn fail(&self, text: &str) -> ExitCode {
        eprintln!("{}: {text}", self.name);
        ExitCode::from(self.trouble)
    }

    /// What `T` declares, and what all programs have alike, but for the hidden options. Of an option that is given again the last value counts,
    /// and a value may begin with a dash.
    fn command<T: Parser>(&self) -> Command {
        T::command()
            .name(self.name)
            .bin_name(self.name)
            .version(concat!("(gpufs) ", env!("CARGO_PKG_VERSION")))
            .help_template(HELP)
            .args_override_self(true)
            .mut_args(|argument| {
                let may = argument.get_action().takes_values() && !argument.is_positional();
                let may = may && !argument.is_require_equals_set();
                if may { argument.allow_hyphen_values(true) } else { argument }
            })
    }

    /// The manual page or the completions that the command line asks for.
    fn generated(&self, mut command: Command, matches: &ArgMatches) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        if let Some(shell) = matches.get_one::<Shell>(COMPLETIONS) {
            clap_complete::generate(*shell, &mut command, self.name, &mut text);
            return Some(text);
        }
        if !matches.get_flag(MAN) {
            return None;
        }
        let page = Man::new(command.version(env!("CARGO_PKG_VERSION")));
        let page = page.source(concat!("gpufs ", env!("CARGO_PKG_VERSION")));
        // A vector takes all that is written to it.
        let _ = page.render(&mut text);
        Some(text)
    }

    /// A line about what is wrong with the command line.
    fn explain(&self, error: &clap::Error) -> String {
        let context = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => text.as_str(),
            _ => "",
        };
        let (argument, value) = (context(ContextKind::InvalidArg), context(ContextKind::InvalidValue));
        let is_option = argument.starts_with('-');
        // Without the name of its value: --blocks <N>, --statistics[=<FORMAT>].
        let option = argument.split([' ', '[', '=']).next().unwrap_or(argument);
        match error.kind() {
            ErrorKind::MissingRequiredArgument => self.with_hint(self.needs),
            ErrorKind::UnknownArgument if !is_option => {
                self.with_hint(&format!("{argument}: one operand too many"))
            }
            ErrorKind::UnknownArgument => match context(ContextKind::SuggestedArg) {
                // One that begins otherwise is hardly what was meant.
                other if !other.is_empty() && other.get(..4) == option.get(..4) => {
                    self.with_hint(&format!("{option}: unknown option, perhaps {other}"))
                }
                _ => self.with_hint(&format!("{option}: unknown option")),
            },
            ErrorKind::InvalidValue if value.is_empty() => {
                self.with_hint(&format!("missing argument for option '{option}'"))
            }
            ErrorKind::ValueValidation => {
                let wrong = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
                if is_option {
                    format!("{option} {value}: {wrong}")
                } else {
                    self.with_hint(&format!("{value}: {wrong}"))
                }
            }
            _ => {
                let text = error.to_string();
                let first = text.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
                self.with_hint(&first.split_whitespace().collect::<Vec<_>>().join(" "))
            }
        }
    }
}
