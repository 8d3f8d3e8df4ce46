//! The best way to serve rings that works on this machine, and why not a better one.

use std::fmt;

use super::{Mode, Ring, RingConfig, RingError};

/// Rings, all served in one way.
#[derive(Debug)]
pub struct Chosen {
    /// Who serves them.
    pub mode: Mode,
    /// As many as were asked for.
    pub rings: Vec<Ring>,
    /// Better ways that do not work here, best first, and what each lacks.
    pub refused: Vec<(Mode, RingError)>,
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ring(s) served by {}", self.rings.len(), self.mode)?;
        let reasons: Vec<String> = self.refused.iter().map(|(_, reason)| reason.to_string()).collect();
        for (index, (mode, _)) in self.refused.iter().enumerate() {
            // Modes that lack the same are named together.
            let shared = reasons.get(index + 1) == reasons.get(index);
            write!(f, "; not by {mode}")?;
            if !shared {
                write!(f, ": {}", reasons[index])?;
            }
        }
        for lack in self.rings.first().map_or(&[][..], Ring::lacks) {
            write!(f, "; without {lack}")?;
        }
        Ok(())
    }
}

/// Opens `count` rings in the best mode that works here for all of them, from `config.mode` downwards.
///
/// # Errors
/// If not even threads can serve them: what the last mode lacked. A wrong configuration is refused at once.
pub fn choose(config: &RingConfig, count: usize) -> Result<Chosen, RingError> {
    config.check()?;
    let mut refused = Vec::new();
    for mode in Mode::BEST_FIRST.into_iter().skip_while(|&mode| mode != config.mode) {
        let config = RingConfig { mode, ..config.clone() };
        match (0..count).map(|_| Ring::open(&config)).collect::<Result<Vec<_>, _>>() {
            Ok(rings) => return Ok(Chosen { mode, rings, refused }),
            Err(error) => refused.push((mode, error)),
        }
    }
    Err(refused.pop().map_or(RingError::Config("no mode was left to try"), |(_, error)| error))
}
