//! What the running kernel says that it can do for rings and sandboxes. Rings are set up for the questions and closed again; no operation runs.

use std::os::fd::{AsFd, OwnedFd};

use gpufs_core::abi::{IORING_SETUP_CQSIZE, IORING_SETUP_NO_SQARRAY, IORING_SETUP_R_DISABLED, Params, Probe};

use super::error::SETUP;
use super::opcodes::Lacks;
use super::restrict::restrict;
use super::{MissingOpcode, Mode, Release, Ring, RingConfig, RingError, RingMemory, kernel, landlock, sys};

/// Entries of the rings that are set up to ask.
const ENTRIES: u32 = 4;

/// What the running kernel says that it can do.
#[derive(Debug)]
#[non_exhaustive]
pub struct Survey {
    /// The running kernel.
    pub kernel: Release,
    /// `IORING_FEAT_*` of a ring, or why none can be set up.
    pub features: Result<u32, RingError>,
    /// What gpufs needs of these features and the kernel does not have: what the modes `sqpoll` and `enter` are refused with.
    pub lacks_features: Vec<(Mode, RingError)>,
    /// Operations without which gpufs does not use the kernel's rings.
    pub lacks_required: Vec<MissingOpcode>,
    /// Operations whose calls fail with `EINVAL`.
    pub lacks_optional: Vec<MissingOpcode>,
    /// Whether rings go without an index array (`IORING_SETUP_NO_SQARRAY`, Linux 6.6): one word less to write for each entry.
    pub no_index_array: bool,
    /// Whether a ring can be restricted to some operations (`IORING_REGISTER_RESTRICTIONS`), which a sandbox needs.
    pub restrictions: bool,
    /// Where a ring's memory may lie.
    pub memories: Vec<MemoryTried>,
    /// The version (ABI) of Landlock, which a sandbox needs, where there is one.
    pub landlock: Option<i32>,
}

/// A kind of ring memory, and why it cannot be had.
#[derive(Debug)]
#[non_exhaustive]
pub struct MemoryTried {
    /// Whose memory.
    pub memory: RingMemory,
    /// The refusal, if it was refused.
    pub refused: Option<RingError>,
}

/// The kernel's answers.
struct Told {
    features: u32,
    probe: Probe,
    no_index_array: bool,
    restrictions: bool,
}

impl Survey {
    /// Asks the running kernel.
    #[must_use]
    pub fn ask() -> Self {
        let memories = [RingMemory::Kernel, RingMemory::Caller].map(|memory| MemoryTried {
            memory,
            refused: Ring::open(&RingConfig { memory, ..config() }).err(),
        });
        Self::of(Release::running(), ask(), memories.into(), landlock::version().ok())
    }

    /// What the answers mean.
    fn of(
        kernel: Release,
        told: Result<Told, RingError>,
        memories: Vec<MemoryTried>,
        landlock: Option<i32>,
    ) -> Self {
        let none = Self {
            kernel,
            features: Ok(0),
            lacks_features: Vec::new(),
            lacks_required: Vec::new(),
            lacks_optional: Vec::new(),
            no_index_array: false,
            restrictions: false,
            memories,
            landlock,
        };
        let told = match told {
            Ok(told) => told,
            Err(error) => return Self { features: Err(error), ..none },
        };
        let lacks_features = [Mode::Sqpoll, Mode::Enter].into_iter().filter_map(|mode| {
            let refused = kernel::check_features(&RingConfig { mode, ..config() }, told.features).err();
            let refused = refused.map(|refused| match refused {
                RingError::TooOld { what, since, .. } => RingError::TooOld { what, since, kernel },
                other => other,
            });
            refused.map(|refused| (mode, refused))
        });
        let Lacks { required, optional } = Lacks::of(&told.probe);
        Self {
            features: Ok(told.features),
            lacks_features: lacks_features.collect(),
            lacks_required: required,
            lacks_optional: optional,
            no_index_array: told.no_index_array,
            restrictions: told.restrictions,
            ..none
        }
    }
}

fn config() -> RingConfig {
    RingConfig { mode: Mode::Enter, entries: ENTRIES, cq_entries: 2 * ENTRIES, ..RingConfig::default() }
}

/// A ring with these flags, which nothing maps.
fn set_up(flags: u32) -> std::io::Result<(OwnedFd, u32)> {
    let mut params =
        Params { flags: IORING_SETUP_CQSIZE | flags, cq_entries: 2 * ENTRIES, ..Params::default() };
    // SAFETY:
    // - the kernel allocates the ring's memory
    let ring = unsafe { sys::setup(ENTRIES, &mut params) }?;
    Ok((ring, params.features))
}

fn ask() -> Result<Told, RingError> {
    let config = config();
    let (ring, features) = set_up(0).map_err(|error| RingError::explain(SETUP, error, &config, 0))?;
    let probe = kernel::probe(&config, ring.as_fd())?;
    let restricted = set_up(IORING_SETUP_R_DISABLED).and_then(|(ring, _)| restrict(ring.as_fd()));
    Ok(Told {
        features,
        probe,
        no_index_array: set_up(IORING_SETUP_NO_SQARRAY).is_ok(),
        restrictions: restricted.is_ok(),
    })
}

#[cfg(test)]
impl Survey {
    /// What Linux 5.10 would have answered: the operations of that release, as its `io_uring.h` numbers them, and its features.
    pub(crate) fn of_an_old_kernel() -> Self {
        use gpufs_core::abi::{IO_URING_OP_SUPPORTED, IORING_FEAT_NODROP, IORING_FEAT_SINGLE_MMAP};

        /// `IORING_OP_TEE`, the last operation of Linux 5.10.
        const LAST: u8 = 33;
        let mut probe = Probe { last_op: LAST, ops_len: LAST + 1, ..Probe::EMPTY };
        for op in &mut probe.ops[..=usize::from(LAST)] {
            op.flags = u16::try_from(IO_URING_OP_SUPPORTED).expect("a flag of 16 bits");
        }
        let features = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP;
        let told = Told { features, probe, no_index_array: false, restrictions: true };
        Self::of(Release::new(5, 10), Ok(told), Vec::new(), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_kernels_lacks_are_named_with_their_calls() {
        let old = Survey::of_an_old_kernel();
        let names = |lacks: &[MissingOpcode]| lacks.iter().map(|lack| lack.name).collect::<Vec<_>>();
        assert_eq!(names(&old.lacks_required), ["RENAMEAT", "UNLINKAT"]);
        assert_eq!(names(&old.lacks_optional), ["MKDIRAT", "SYMLINKAT", "LINKAT", "FTRUNCATE"]);
        assert_eq!(old.lacks_required[0].calls, "rename, renameat");
        assert!(matches!(old.lacks_features[..], [(Mode::Sqpoll, RingError::TooOld { .. })]), "{old:?}");
    }

    #[test]
    fn the_running_kernel_answers() {
        let survey = Survey::ask();
        match &survey.features {
            Ok(features) => assert_ne!(*features, 0, "{survey:?}"),
            Err(refused) => println!("SKIP the_running_kernel_answers: {refused}"),
        }
        assert_eq!(survey.kernel, Release::running());
        assert_eq!(survey.memories.len(), 2);
    }
}
