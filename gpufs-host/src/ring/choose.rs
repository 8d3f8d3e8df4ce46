//! The best mode that works on this machine, and why no better one does.

use std::fmt;

use super::{Mode, Ring, RingConfig, RingError, RingMemory};

/// Rings, all in one mode.
#[derive(Debug)]
pub struct Chosen {
    /// What serves them.
    pub mode: Mode,
    /// What allocated them.
    pub memory: RingMemory,
    /// As many as were asked for.
    pub rings: Vec<Ring>,
    /// Better modes that do not work here, best first, and what each lacks.
    pub refused: Vec<(Mode, RingError)>,
    /// Better kinds of memory that do not work here in this mode, best first, and why.
    pub refused_memory: Vec<(RingMemory, RingError)>,
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
        if !self.refused_memory.is_empty() {
            write!(f, "; memory of the {}", self.memory)?;
        }
        for (memory, reason) in &self.refused_memory {
            write!(f, ", not of the {memory}: {reason}")?;
        }
        for lack in self.rings.first().map_or(&[][..], Ring::lacks) {
            write!(f, "; without {lack}")?;
        }
        Ok(())
    }
}

/// Opens `count` rings in the best mode that works here for all of them, from `config.mode` downwards, in memory of `config.memory`.
///
/// # Errors
/// If not even threads can serve them: what the last mode lacked. A wrong configuration is refused at once.
pub fn choose(config: &RingConfig, count: usize) -> Result<Chosen, RingError> {
    let from = Mode::BEST_FIRST.iter().position(|mode| *mode == config.mode).unwrap_or(0);
    choose_among(config, count, &Mode::BEST_FIRST[from..], &[config.memory])
}

/// Opens `count` rings in the first of `modes` that works here for all of them, and there in the first of `memories` that works.
///
/// # Errors
/// If none works: what the last mode lacked. A wrong configuration is refused at once.
pub fn choose_among(
    config: &RingConfig,
    count: usize,
    modes: &[Mode],
    memories: &[RingMemory],
) -> Result<Chosen, RingError> {
    config.check()?;
    let mut refused = Vec::new();
    for &mode in modes {
        match with_memory(&RingConfig { mode, ..config.clone() }, count, memories) {
            Ok(chosen) => return Ok(Chosen { refused, ..chosen }),
            Err(error) => refused.push((mode, error)),
        }
    }
    Err(refused.pop().map_or(RingError::Config("no mode was left to try"), |(_, error)| error))
}

/// Opens `count` rings in the first of `memories` that works in `config.mode`. A ring works if an operation has completed through it.
fn with_memory(config: &RingConfig, count: usize, memories: &[RingMemory]) -> Result<Chosen, RingError> {
    let mode = config.mode;
    let mut refused_memory = Vec::new();
    for &memory in memories {
        if mode == Mode::Threads && memory == RingMemory::Kernel && memories.contains(&RingMemory::Caller) {
            // The same as `Caller`, which is tried.
            continue;
        }
        let config = RingConfig { memory, ..config.clone() };
        let opened = (0..count).map(|_| Ring::open(&config)).collect::<Result<Vec<_>, _>>();
        if let Ok(rings) = &opened {
            // Whether the mode works does not depend on the memory.
            rings.iter().try_for_each(Ring::prove)?;
        }
        match opened {
            Ok(rings) => return Ok(Chosen { mode, memory, rings, refused: Vec::new(), refused_memory }),
            Err(error) => refused_memory.push((memory, error)),
        }
    }
    let first = refused_memory.first().map(|(_, error)| error.to_string());
    if refused_memory.iter().all(|(_, error)| Some(error.to_string()) == first) {
        refused_memory.truncate(1);
    }
    Err(match refused_memory.len() {
        0 | 1 => refused_memory
            .pop()
            .map_or(RingError::Config("no ring memory was left to try"), |(_, error)| error),
        _ => RingError::EveryMemory(refused_memory),
    })
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::ptr::NonNull;
    use std::sync::Arc;

    use super::*;
    use crate::ring::{CpuMemory, MemorySource};

    /// Shares none but the memory of its runtime, where it has one.
    #[derive(Debug)]
    struct Picky {
        runtime: bool,
    }

    // SAFETY:
    // - memory is `CpuMemory`'s, and none is ever shared
    unsafe impl MemorySource for Picky {
        fn allocate(&self, bytes: usize, align: usize) -> io::Result<NonNull<u8>> {
            CpuMemory.allocate(bytes, align)
        }
        unsafe fn free(&self, memory: NonNull<u8>, bytes: usize) {
            // SAFETY:
            // - from `allocate`
            unsafe { CpuMemory.free(memory, bytes) };
        }
        unsafe fn share(&self, _memory: NonNull<u8>, bytes: usize) -> io::Result<NonNull<u8>> {
            Err(io::Error::other(format!("{} pages", if bytes < 1 << 14 { "few" } else { "many" })))
        }
        unsafe fn unshare(&self, _memory: NonNull<u8>, _bytes: usize) {}
        fn runtime(&self) -> Option<Arc<dyn MemorySource>> {
            self.runtime.then(|| -> Arc<dyn MemorySource> { Arc::new(CpuMemory) })
        }
    }

    fn picky(runtime: bool) -> RingConfig {
        RingConfig { source: Arc::new(Picky { runtime }), ..RingConfig::default() }
    }

    #[test]
    fn the_runtimes_memory_is_the_last_resort_and_why_is_said() {
        let config = picky(true);
        let chosen = choose_among(&config, 2, &[Mode::Threads], &RingMemory::BEST_FIRST).unwrap();
        assert_eq!((chosen.memory, chosen.rings.len()), (RingMemory::Runtime, 2));
        let said = chosen.to_string();
        assert!(
            said.contains("memory of the runtime, not of the caller: allocating ring memory: many pages"),
            "{said}"
        );

        let chosen = match choose_among(&config, 1, &[Mode::Enter], &RingMemory::BEST_FIRST) {
            Ok(chosen) => chosen,
            Err(refused) => {
                return println!(
                    "SKIP the_runtimes_memory_is_the_last_resort_and_why_is_said in enter: {refused}"
                );
            }
        };
        let refused: Vec<_> = chosen.refused_memory.iter().map(|(memory, _)| *memory).collect();
        assert_eq!(
            (chosen.memory, refused),
            (RingMemory::Runtime, vec![RingMemory::Kernel, RingMemory::Caller])
        );
    }

    #[test]
    fn what_every_memory_lacks_is_said() {
        let error = choose_among(&picky(false), 1, &[Mode::Threads], &RingMemory::BEST_FIRST).unwrap_err();
        assert_eq!(error.to_string(), "allocating ring memory: many pages", "the same for all is said once");
        let each = RingError::EveryMemory(vec![
            (RingMemory::Kernel, RingError::Config("this")),
            (RingMemory::Caller, RingError::Config("that")),
        ]);
        assert_eq!(each.to_string(), "with memory of the kernel: this; with memory of the caller: that");
    }
}
