//! Attempts run in child processes: a child says which attempt it begins, and then what came of it. Where it dies or hangs, that is what came of it,
//! and the next child goes on with the attempt after it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::{Seen, Site, Way, World, attempts};
use crate::skip;

/// What tells a child its part: families, way, whether in a sandbox, and the first attempt.
const PART: &str = "GPUFS_HOSTILE_PART";
/// No attempt takes nearly as long.
const LIMIT: Duration = Duration::from_secs(40);
/// Worlds that a child leaves behind before another goes on.
const LEFT_MAX: u32 = 20;

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Came {
    Harm(String),
    Refused(i32),
    Harmless(String),
    Silent,
    /// The host's process died, or had to be killed.
    Died(String),
}

/// What a child does: families, way, whether in a sandbox, and the first attempt.
pub(super) type Part = (String, Way, bool, usize);

/// The child's part, where this process is one.
pub(super) fn part() -> Option<Part> {
    let part = std::env::var(PART).ok()?;
    let words: Vec<_> = part.split(' ').collect();
    let way = Way::ALL.into_iter().find(|way| way.name() == words[1]).expect("a way");
    Some((words[0].into(), way, words[2] == "true", words[3].parse().expect("a number")))
}

/// The child: attempts from `first` on.
#[expect(unsafe_code, reason = "ends the process where it stands")]
pub(super) fn attack(site: &Site, (families, way, boxed, first): &Part) -> ! {
    let (way, boxed) = (*way, *boxed);
    let say = |text: String| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "\nHOSTILE\t{text}").and_then(|()| out.flush()).expect("the parent listens");
    };
    std::panic::set_hook(Box::new(move |panic| say(format!("panic\t0\t{panic}").replace('\n', " "))));
    let mut world: Option<World> = None;
    let mut left = 0;
    for (index, attempt) in attempts(families, boxed, site.is_gpu()).iter().enumerate().skip(*first) {
        let mut here = match world.take().map_or_else(|| World::new(&site.device, way, boxed), Ok) {
            Ok(world) => world,
            Err(error) => {
                say(format!("skip\t0\t{error}").replace('\n', " "));
                break;
            }
        };
        say(format!("begin\t{index}\t"));
        let seen = (attempt.body)(&mut here);
        let harm = here.harm(&seen);
        let clean = harm.is_none() && matches!(seen, Seen::Refused(_));
        match (harm, seen) {
            (Some(harm), _) => say(format!("harm\t{index}\t{harm}")),
            (None, Seen::Refused(errno)) => say(format!("refused\t{index}\t{errno}")),
            (None, Seen::Silent) => say(format!("silent\t{index}\t")),
            (None, Seen::Harmless(text) | Seen::Harm(text)) => say(format!("harmless\t{index}\t{text}")),
        }
        // One that was refused and left nothing behind can be used again. Others may own what is closed or forged by now, so nobody drops them.
        world = if clean && here.rests() { Some(here) } else { here.renewed() };
        left += u32::from(world.is_none());
        if left == LEFT_MAX {
            break;
        }
    }
    say("end\t0\t".into());
    // SAFETY:
    // - ends the process; whatever was forged or is in flight goes with it
    unsafe { libc::_exit(0) }
}

/// What a child said.
#[derive(Default)]
struct Heard {
    came: BTreeMap<usize, Came>,
    /// The attempt that it was at.
    begun: Option<usize>,
    /// Why it does not attack at all.
    skipped: Option<String>,
    /// The panic that ended it, if one did.
    panicked: String,
    /// It ended by itself.
    ended: bool,
    /// It said nothing for long.
    hung: bool,
}

impl Heard {
    fn line(&mut self, line: &str) {
        let words: Vec<_> = line.split('\t').collect();
        let ["HOSTILE", what, index, text] = words[..] else { return };
        let index: usize = index.parse().expect("an index");
        let text = text.to_owned();
        let came = match what {
            "begin" => {
                self.begun = Some(index);
                return;
            }
            "skip" => {
                self.skipped = Some(text);
                return;
            }
            "panic" => {
                self.panicked = text;
                return;
            }
            "end" => {
                self.ended = true;
                return;
            }
            "harm" => Came::Harm(text),
            "refused" => Came::Refused(text.parse().expect("a number")),
            "harmless" => Came::Harmless(text),
            _ => Came::Silent,
        };
        self.begun = None;
        self.came.insert(index, came);
    }
}

/// Runs a child to its end, or as long as it says something.
fn listen(child: &mut Child) -> Heard {
    let (sender, lines) = channel();
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    // Where a grandchild holds the pipe open, it stays behind.
    std::thread::spawn(move || {
        for line in out.split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    let mut heard = Heard::default();
    // Ends: the child does, or is silent.
    while !heard.ended {
        match lines.recv_timeout(LIMIT) {
            Err(RecvTimeoutError::Timeout) => {
                heard.hung = true;
                child.kill().expect("the child is there");
                break;
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Ok(line) => heard.line(&line),
        }
    }
    heard
}

/// Removes the directories of a child, which left its worlds behind.
fn clean_up(child: u32) {
    let name = format!("gpufs-hostile-{child}-");
    let entries = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&name)) {
        // What stays behind is only litter.
        let _ = std::fs::remove_dir_all(entry.path());
    }
}

/// What came of each attempt of some families in one way; `None` where it does not run here.
pub(super) fn all(
    site: &Site,
    families: &str,
    way: Way,
    boxed: bool,
    total: usize,
) -> Option<BTreeMap<usize, Came>> {
    let mut came = BTreeMap::new();
    // Ends: each child gets at least one attempt further.
    while came.len() < total {
        let first = came.len();
        let part = format!("{families} {} {boxed} {first}", way.name());
        let mut child = site
            .again()
            .env(PART, &part)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("this program once more");
        let mut heard = listen(&mut child);
        let status = child.wait().expect("the child's end");
        came.append(&mut heard.came);
        clean_up(child.id());
        if let Some(reason) = heard.skipped {
            assert_eq!(came.len(), 0, "{part}: no session after some that there were: {reason}");
            skip(&format!("{families} {} sandbox: {boxed}", way.name()), reason);
            return None;
        }
        if let Some(index) = heard.begun {
            let how = if heard.hung {
                "the host hung".into()
            } else {
                format!("the host died: {status}{}", heard.panicked)
            };
            came.insert(index, Came::Died(how));
        }
        assert!(came.len() > first, "{part}: the child attempted nothing: {status} {}", heard.panicked);
    }
    Some(came)
}
