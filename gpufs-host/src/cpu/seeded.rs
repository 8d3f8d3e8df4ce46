//! The seeded scheduler: one OS thread, and every choice drawn from the seed. It chooses which lane runs next after each warp
//! operation, and which of the lanes that wait at one place are said to have called together.
//!
//! Nothing else enters a decision: no clock (but after a lane has panicked), no address. So a kernel whose lanes
//! look at nothing else runs the same way again.

use std::thread;

use super::resident::{Resident, Tools};
use super::stack::StackPool;
use super::warp::lanes_of;
use super::work::Work;

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators").
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    /// A number below `limit`, which is at least 1 and far below 2⁶⁴.
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
    /// True `in_256` times in 256.
    fn chance(&mut self, in_256: u64) -> bool {
        self.below(256) < in_256
    }
    fn one_of<const N: usize>(&mut self, choices: [u64; N]) -> u64 {
        choices[usize::try_from(self.below(N as u64)).expect("an index")]
    }
    /// A lane of `mask`, which is not empty.
    fn lane(&mut self, mask: u64) -> u32 {
        let rank = self.below(u64::from(mask.count_ones()));
        lanes_of(mask).nth(usize::try_from(rank).expect("an index")).expect("below the number of lanes")
    }
}

/// How this seed schedules, in chances out of 256: seeds differ in kind, not only in detail.
#[derive(Debug)]
struct Temper {
    /// The lane that just ran runs on.
    same_lane: u64,
    /// The warp that just ran runs on.
    same_warp: u64,
    /// A group is closed although lanes could still come.
    early: u64,
    /// A group that is closed is split.
    split: u64,
}

impl Temper {
    fn draw(random: &mut Random) -> Self {
        Self {
            same_lane: random.one_of([0, 64, 192, 240]),
            same_warp: random.one_of([0, 128, 240, 252]),
            early: random.one_of([0, 1, 8, 64]),
            split: random.one_of([0, 64, 128, 224]),
        }
    }
}

/// Runs all warps of `work` on this thread, up to `limit` at a time.
pub(super) fn run(work: &Work<'_>, limit: usize, seed: u64) {
    let mut random = Random(seed);
    let temper = Temper::draw(&mut random);
    let mut tools = Tools { work, stacks: StackPool::new(work.stack_bytes) };
    let mut residents: Vec<Box<Resident>> = Vec::new();
    let mut spare: Vec<Box<Resident>> = Vec::new();
    // Naps since the last progress.
    let mut naps = 0;
    let (mut chosen, mut last_lane) = (0, 0);
    loop {
        while residents.len() < limit
            && let Some(new) = work.take()
        {
            let resident = spare.pop().unwrap_or_else(|| Box::new(Resident::new(work, true)));
            resident.warp.begin(new.origin, new.lanes);
            residents.push(resident);
        }
        if residents.is_empty() {
            return;
        }
        if chosen >= residents.len() || !random.chance(temper.same_warp) {
            chosen = usize::try_from(random.below(residents.len() as u64)).expect("an index");
        }
        let resident = &mut residents[chosen];
        last_lane = step(resident, last_lane, &temper, &mut random, &mut tools);
        naps += usize::from(resident.warp.napping.contains(last_lane));
        if resident.warp.progress.take() {
            naps = 0;
        }
        if resident.has_ended() {
            spare.push(residents.swap_remove(chosen));
        } else if naps > residents.len() * work.width as usize {
            // By now every lane has had its turn, more or less. The one that could go on may be among those that did not, so this gives
            // the core away and does not sleep.
            thread::yield_now();
            naps = 0;
        }
    }
}

/// Runs one lane of a warp until it suspends, or closes one group. The lane that ran, or that was parked there for longest.
fn step(
    resident: &mut Resident,
    last_lane: u32,
    temper: &Temper,
    random: &mut Random,
    tools: &mut Tools<'_>,
) -> u32 {
    let warp = &resident.warp;
    let (ready, napping, parked) = (warp.ready.mask(), warp.napping.mask(), warp.parked.mask());
    debug_assert!(ready | napping | parked != 0, "some lane can always go on");
    // With no lane ready, the lanes that nap and those that are parked may be waiting for each other.
    let closes = if ready != 0 { random.chance(temper.early) } else { napping == 0 || random.chance(128) };
    if parked != 0 && closes {
        let lane = random.lane(parked);
        let mut group = warp.parked_with(lane);
        if random.chance(temper.split) {
            group &= random.next() | 1 << lane;
        }
        warp.release(group);
        return lane;
    }
    let can_run = ready | napping;
    let lane = if can_run >> last_lane & 1 == 1 && random.chance(temper.same_lane) {
        last_lane
    } else {
        random.lane(can_run)
    };
    if napping >> lane & 1 == 1 {
        if tools.work.is_past_grace() {
            resident.give_up_napping(tools);
            return lane;
        }
        warp.napping.remove(1 << lane);
        warp.ready.insert(1 << lane);
    }
    resident.run(lane, tools);
    lane
}
