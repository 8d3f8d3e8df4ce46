//! The machine below the algorithms: ten operations, one file per target, and [`Lanes`], the set of lanes that a call passes down.
//!
//! Everything above this module is written once. A new target is one more file that implements [`Warp`].

#[cfg(target_arch = "amdgpu")]
#[path = "amdgcn.rs"]
mod machine;
#[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
#[path = "cpu.rs"]
mod machine;
#[cfg(target_arch = "nvptx64")]
#[path = "nvptx.rs"]
mod machine;
pub(crate) mod message;
#[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu", test))]
mod scan;

pub use gpufs_core::Position;
pub use gpufs_core::call::CallSite;
pub use machine::Machine;
use machine::Met;
pub use message::Broadcast;

use gpufs_core::Call;

use crate::inside::Inside;

/// The lanes that come here together, as [`warp::Lanes`](crate::warp::Lanes), for what a kernel's own lanes do together. Two of these are two
/// places, also where one macro holds both. A place in a function that several others call is one place.
///
/// ```
/// # use gpufs_device::calling;
/// fn sum_of_lower_lanes(mine: u64) -> u64 {
///     calling!().scan(mine)
/// }
/// ```
#[macro_export]
macro_rules! calling {
    () => {{
        static SITE: $crate::warp::CallSite = $crate::warp::CallSite::new();
        $crate::warp::Lanes::calling_at(&SITE)
    }};
}

/// A set of lanes of one warp: bit `i` stands for lane `i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct LaneMask(pub u64);

impl LaneMask {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// How many lanes.
    #[inline]
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }
    /// Whether there is none.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Whether `lane` is in the set.
    #[inline]
    #[must_use]
    pub const fn contains(self, lane: u32) -> bool {
        self.0 >> lane & 1 == 1
    }
    /// The lowest lane; 64 if there is none.
    #[inline]
    #[must_use]
    pub const fn first(self) -> u32 {
        // A warp of NVIDIA's has 32 lanes, and its instructions 32 bits.
        let (all, low) = (self.0, self.0 as u32);
        if cfg!(target_arch = "nvptx64") && low != 0 { low.trailing_zeros() } else { all.trailing_zeros() }
    }
    /// The highest lane.
    ///
    /// # Panics
    /// If the set is empty.
    #[inline]
    #[must_use]
    pub const fn last(self) -> u32 {
        63 - self.0.leading_zeros()
    }
    /// The lanes of this set that are not in `other`.
    #[inline]
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
    /// How many lanes of the set are lower than `lane`.
    #[inline]
    #[must_use]
    pub const fn rank(self, lane: u32) -> u32 {
        (self.0 & ((1 << lane) - 1)).count_ones()
    }
    /// The lane of a rank, which is below [`LaneMask::count`].
    #[inline]
    #[must_use]
    pub const fn nth(self, rank: u32) -> u32 {
        let (mut lane, mut left, mut half) = (0, rank, 32);
        // Ends: `half` does. Which half of what is left holds the lane?
        while half > 0 {
            let lower = (self.0 >> lane & ((1 << half) - 1)).count_ones();
            if left >= lower {
                left -= lower;
                lane += half;
            }
            half /= 2;
        }
        lane
    }
    /// The lanes in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            (rest != 0).then(|| {
                let lane = rest.trailing_zeros();
                rest &= rest - 1;
                lane
            })
        })
    }
}

/// What a machine offers a lane. What lanes do together is [`Lanes`]'s.
pub trait Warp {
    /// Whether a lane makes progress while others of its warp run or wait elsewhere. Where not, lanes that part come together again
    /// where their branches end, and one that waits inside a branch keeps the others waiting at its end.
    const INDEPENDENT_LANES: bool;
    /// Whether a lane copies memory best in a loop over words. Where not, the compiler's own copy is better.
    const COPIES_WORDS: bool;
    /// How often a lane that waits for a completion polls for one before it lets others poll: where a poll takes about as long as taking
    /// turns does.
    const POLLS_BEFORE_YIELD: u32;
    /// Warps that look after the blocks of a busy stream at a time. On few cores they take turns as it is.
    const PROGRESS_WARPS_MAX: u32;
    /// The longest nap of a warp that waits where all others may be waiting, too.
    const NAP_OF_MANY_NS: u32;
    /// Lanes in a warp: 1 to 64. Any lane; the same everywhere.
    fn width() -> u32;
    /// The calling lane's index, below [`Warp::width`]. Any lane.
    fn lane() -> u32;
    /// Gives others the machine for about `nanoseconds` or less. Any lane; every waiting loop calls it.
    fn nap(nanoseconds: u32);
    /// Nanoseconds of a monotonic clock. Any lane.
    fn clock() -> u64;
    /// Whether the caller is a thread of the host's, a warp of one, rather than a kernel's lane. It gets errors where a lane would panic.
    fn is_host() -> bool {
        false
    }
    /// What tells the launch that the caller runs in from all others that run at the same time; of CPU lanes, the lane as well. Any lane.
    fn launch() -> u64;
    /// Whether other lanes of the warp find something else at this address. Any lane.
    fn is_private(address: u64) -> bool;
}

/// What the lanes of a warp do together: reached through [`Lanes`] alone, since the calls of this library follow what lanes tell each other.
///
/// Where a function takes `lanes`: convergent; called by exactly the lanes in the mask, all with the same mask, each lane in it
/// the caller's own among them; the result is valid in all of them. What a lane did before is visible to the others after.
pub(crate) trait Collectives: Warp {
    /// The lanes that make one call together. Convergent; called by any lanes; in each, the mask holds the caller, and the lanes in
    /// it got the same mask. `call` is which call it is, for machines that do not know by themselves: a GPU's lanes that execute
    /// an instruction together are in the same call.
    fn calling(call: usize) -> Met;
    /// The lanes whose `predicate` holds.
    fn ballot(lanes: Met, predicate: bool) -> LaneMask;
    /// The result of `work` in the leader, the lowest of `lanes`. No other lane runs it.
    #[inline]
    fn on_leader(lanes: Met, work: impl FnOnce() -> u64) -> u64 {
        let word = if Self::lane() == lanes.first() { work() } else { 0 };
        Self::broadcast(lanes, word, lanes.first())
    }
    /// The `value` of lane `from`, which is in `lanes`; each lane names its own `from`.
    fn shuffle(lanes: Met, value: u64, from: u32) -> u64;
    /// The `value` of lane `from`, which is in `lanes` and the same in all.
    fn broadcast(lanes: Met, value: u64, from: u32) -> u64;
    /// Whether `value` is the same in all.
    #[inline]
    fn same(lanes: Met, value: u64) -> bool {
        let first = Self::broadcast(lanes, value, lanes.first());
        Self::ballot(lanes, value != first).is_empty()
    }
    /// The wrapping sum of `value` over the lanes of the mask below the caller.
    fn scan(lanes: Met, value: u64) -> u64;
    /// Waits until all have called.
    fn sync(lanes: Met);
}

/// The lanes of one call, taken once at its start and passed down as a value, with the caller's place among them.
///
/// All methods but the accessors are convergent and are called by exactly the lanes in the set; results are valid in all of
/// them.
///
/// On CPU lanes, operations of lanes that found each other in different calls never meet: where a lane leaves a call that others are in, by a panic
/// that the kernel catches, what it does next is not taken for a step of that call. A lane that then waits for one of them panics.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    met: Met,
    lane: u32,
}

impl Lanes {
    /// The lanes that make `call` of `session` together. The one place where a call takes them: each call of the library does so
    /// once, with a value of its own.
    #[inline]
    #[must_use]
    pub(crate) fn calling(inside: &Inside, call: Call) -> Self {
        Self { met: Machine::calling(call.identity(inside.session())), lane: Machine::lane() }
    }
    /// The lanes that come to `site` together: [`calling!`](crate::calling) declares one.
    #[inline]
    #[must_use]
    pub fn calling_at(site: &'static CallSite) -> Self {
        Self { met: Machine::calling(site.identity()), lane: Machine::lane() }
    }
    /// The lanes of a mask, for the crate whose instructions are compared with what is expected.
    ///
    /// # Safety
    /// Exactly these lanes call it, together, the caller among them.
    #[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
    #[doc(hidden)]
    #[inline]
    #[must_use]
    #[expect(unsafe_code, reason = "a promise about who calls")]
    pub unsafe fn of_mask(mask: LaneMask) -> Self {
        Self { met: mask, lane: Machine::lane() }
    }
    /// The set.
    #[inline]
    #[must_use]
    pub const fn mask(self) -> LaneMask {
        #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
        return self.met.mask;
        #[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
        self.met
    }
    /// The caller's lane.
    #[inline]
    #[must_use]
    pub const fn lane(self) -> u32 {
        self.lane
    }
    /// How many lanes.
    #[inline]
    #[must_use]
    pub const fn count(self) -> u32 {
        self.mask().count()
    }
    /// How many lanes of the set are below the caller.
    #[inline]
    #[must_use]
    pub const fn rank(self) -> u32 {
        self.mask().rank(self.lane)
    }
    /// The lane that acts for the set: its lowest.
    #[inline]
    #[must_use]
    pub const fn leader(self) -> u32 {
        self.mask().first()
    }
    /// Whether the caller is the leader.
    #[inline]
    #[must_use]
    pub const fn is_leader(self) -> bool {
        self.lane == self.leader()
    }
    /// The lanes whose `predicate` holds.
    #[inline]
    #[must_use]
    pub fn ballot(self, predicate: bool) -> LaneMask {
        Machine::ballot(self.met, predicate)
    }
    /// Whether `predicate` holds in every lane.
    #[inline]
    #[must_use]
    pub fn all(self, predicate: bool) -> bool {
        self.ballot(predicate) == self.mask()
    }
    /// Whether `predicate` holds in some lane.
    #[inline]
    #[must_use]
    pub fn any(self, predicate: bool) -> bool {
        !self.ballot(predicate).is_empty()
    }
    /// Whether `value` is the same in every lane.
    #[inline]
    #[must_use]
    pub fn same<T: Broadcast>(self, value: T) -> bool {
        Machine::same(self.met, value.to_word())
    }
    /// The `value` of lane `from`, each lane naming its own.
    #[inline]
    #[must_use]
    pub fn shuffle<T: Broadcast>(self, value: T, from: u32) -> T {
        T::from_word(Machine::shuffle(self.met, value.to_word(), from))
    }
    /// The `value` of lane `from`, the same in all.
    #[inline]
    #[must_use]
    pub fn broadcast<T: Broadcast>(self, value: T, from: u32) -> T {
        T::from_word(Machine::broadcast(self.met, value.to_word(), from))
    }
    /// The leader's `value`.
    #[inline]
    #[must_use]
    pub fn from_leader<T: Broadcast>(self, value: T) -> T {
        self.broadcast(value, self.leader())
    }
    /// The result of `work` in the leader; no other lane runs it. For long work: on some machines it becomes a function of its own.
    #[inline]
    #[must_use]
    pub fn on_leader<T: Broadcast>(self, work: impl FnOnce() -> T) -> T {
        T::from_word(Machine::on_leader(self.met, || work().to_word()))
    }
    /// As [`Lanes::on_leader`], for short work: it stays a part of the caller.
    #[inline]
    #[must_use]
    pub fn on_leader_inline<T: Broadcast>(self, work: impl FnOnce() -> T) -> T {
        let word = if self.is_leader() { work().to_word() } else { 0 };
        T::from_word(self.from_leader(word))
    }
    /// The sum of `value` over the lanes below the caller.
    #[inline]
    #[must_use]
    pub fn scan(self, value: u64) -> u64 {
        Machine::scan(self.met, value)
    }
    /// Waits until all have called; what each did before is visible to all after.
    #[inline]
    pub fn sync(self) {
        Machine::sync(self.met);
    }
    /// Runs `body` once for each distinct `key`, with the lanes that hold it; the result of the caller's own group.
    #[inline]
    pub fn grouped<T>(self, key: u64, body: impl FnOnce(Self) -> T) -> T {
        if Machine::INDEPENDENT_LANES {
            self.grouped_apart(key, body)
        } else {
            self.grouped_in_turn(key, body)
        }
    }
    /// [`Lanes::grouped`]: no group waits for another.
    #[inline]
    fn grouped_apart<T>(self, key: u64, body: impl FnOnce(Self) -> T) -> T {
        let mut rest = self;
        // Ends: each round serves at least the leader.
        loop {
            let chosen = rest.from_leader(key);
            let group = rest.ballot(key == chosen);
            if key == chosen {
                return body(rest.subset(group));
            }
            rest = rest.subset(rest.mask().without(group));
        }
    }
    /// [`Lanes::grouped`]: one group after the other, all leaving together.
    ///
    /// A loop that groups left one by one would not do: lanes that leave a loop come together at its end, so that the groups would run
    /// their bodies at the same time, and the one that first got a lock would wait for the one that waits for it.
    #[inline]
    fn grouped_in_turn<T>(self, key: u64, body: impl FnOnce(Self) -> T) -> T {
        let mut rest = self.mask();
        let mut body = Some(body);
        let mut result = None;
        // Ends: each round serves at least the lowest lane left. The condition is the same in all lanes.
        while !rest.is_empty() {
            let group = self.ballot(key == self.broadcast(key, rest.first()));
            if group.contains(self.lane)
                && let Some(body) = body.take()
            {
                result = Some(body(self.subset(group)));
            }
            rest = rest.without(group);
        }
        let Some(result) = result else { unreachable!("each lane is in the group of its key") };
        result
    }
    /// The part of the set in `subset`, for a call made by exactly those lanes.
    ///
    /// # Panics
    /// In debug builds, if the caller is not in `subset` or `subset` is not a part of the set.
    #[inline]
    #[must_use]
    pub fn subset(self, subset: LaneMask) -> Self {
        debug_assert!(subset.contains(self.lane) && subset.without(self.mask()).is_empty());
        #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
        let met = self.met.part(subset);
        #[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
        let met = subset;
        Self { met, lane: self.lane }
    }
}

/// Where the calling thread stands in its launch. Any lane.
#[inline]
#[must_use]
pub fn position() -> Position {
    machine::position()
}

/// The calling thread's index in the whole grid. Any lane.
#[inline]
#[must_use]
pub fn global_thread() -> u64 {
    let position = position();
    u64::from(position.block) * u64::from(position.block_threads) + u64::from(position.thread)
}

/// Bits of a thread's number in an identity.
const THREAD_BITS: u32 = 40;

/// What tells who may keep a stream ([R-12]): the calling lane, or its warp where lanes run in lockstep. Never 0. Any lane.
///
/// ```text
/// 63 … 40                        39 … 0
/// launch, modulo 2^24            the thread's index in the grid, or its warp's first thread's, and 1
/// ```
#[must_use]
pub(crate) fn identity() -> u64 {
    let thread = global_thread();
    let first = if Machine::INDEPENDENT_LANES { thread } else { thread - u64::from(Machine::lane()) };
    identity_of(Machine::launch(), first)
}

#[inline]
const fn identity_of(launch: u64, thread: u64) -> u64 {
    launch << THREAD_BITS | ((thread + 1) & ((1 << THREAD_BITS) - 1))
}

/// The calling lane, as [`identity`] of a lane that runs by itself. Any lane.
#[inline]
#[must_use]
pub(crate) fn identity_of_lane() -> u64 {
    identity_of(Machine::launch(), global_thread())
}
/// The lane of the caller's warp that [`identity_of_lane`] says this of. Any lane.
#[inline]
#[must_use]
pub(crate) fn lane_of(identity: u64) -> Option<u32> {
    let lane = identity.wrapping_sub(identity_of_lane()).wrapping_add(u64::from(Machine::lane()));
    // Of another launch the upper bits differ. Threads of a grid are fewer than the lower ones tell apart.
    u32::try_from(lane).ok().filter(|lane| *lane < Machine::width())
}

/// Threads in the whole grid. Any lane; the same everywhere.
#[inline]
#[must_use]
pub fn grid_threads() -> u64 {
    let position = position();
    u64::from(position.grid_blocks) * u64::from(position.block_threads)
}

/// Lets other lanes and warps run. A loop in a kernel that waits for another thread calls this, or the CPU lanes it waits for
/// never run.
#[inline]
pub fn nap(nanoseconds: u32) {
    Machine::nap(nanoseconds);
}

/// Nanoseconds of a monotonic clock. Any lane.
#[inline]
#[must_use]
pub fn clock() -> u64 {
    Machine::clock()
}

#[cfg(test)]
mod tests {
    use super::{LaneMask, THREAD_BITS, identity_of};

    #[test]
    fn identities_are_not_0_and_tell_apart() {
        let mut all = std::collections::BTreeSet::from([0]);
        for launch in [0, 1, 2, (1 << 24) - 1] {
            for thread in [0, 1, 2, 0xffff_ffff, (1 << THREAD_BITS) - 2] {
                assert!(all.insert(identity_of(launch, thread)), "{launch} {thread}");
            }
        }
        assert_eq!(identity_of(0, 1 << THREAD_BITS), identity_of(0, 0), "none is another launch's");
    }

    #[test]
    fn nth_and_rank_are_inverse() {
        for mask in [1, 1 << 63, u64::MAX, 0xffff_ffff, 0x8000_0001_0000_0010, 0x5555_5555_5555_5555, 0xfff0]
        {
            let mask = LaneMask(mask);
            let held: Vec<u32> = (0..64).filter(|lane| mask.contains(*lane)).collect();
            assert_eq!((held, mask.count() as usize), (mask.iter().collect(), mask.iter().count()));
            for (rank, lane) in (0..).zip(mask.iter()) {
                assert_eq!((mask.nth(rank), mask.rank(lane)), (lane, rank), "{mask:?}");
            }
        }
    }
}
