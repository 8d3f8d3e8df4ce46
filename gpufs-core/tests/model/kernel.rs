//! A kernel crueller than the real one. It keeps io_uring's promises (entries are read in order and only up to the tail; one SQE
//! gives one CQE; a CQE is written only where the head frees an entry; before it sleeps it says so and looks again) and no others:
//! it is late, completes in any order, with any result, keeps completions back, sleeps whenever it may, posts completions of
//! operations that are long over or never were, and tramples on everything that is its own.

use crate::chance::Chance;
use crate::rig::{Rig, Shape};
use crate::world::{Model, Stage, Temper};
use gpufs_core::Operation;
use gpufs_core::abi::{Cqe, IORING_SQ_NEED_WAKEUP, IOSQE_IO_LINK, Sqe};
use gpufs_core::word::wake_fence;

const GARBAGE_SQE: Sqe = Sqe {
    opcode: 0xde,
    flags: 0xad,
    ioprio: 0xbeef,
    fd: -2,
    off: 0xdead_beef_dead_beef,
    addr: 0xdead_beef_dead_beef,
    len: 0xdead_beef,
    op_flags: 0xdead_beef,
    user_data: 0xdead_beef_dead_beef,
    buf_index: 0xdead,
    personality: 0xbeef,
    file_index: 0xdead_beef,
    addr3: 0xdead_beef_dead_beef,
    pad: 0xdead_beef_dead_beef,
};
const GARBAGE_CQE: Cqe = Cqe { user_data: 0xdead_beef_dead_beef, res: -0x0dea_dbee, flags: 0xdead_beef };

/// The way to sleep: announce, look again, sleep. Others run between any two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Awake,
    Announced,
    Asleep,
}

#[derive(Debug)]
pub(crate) struct Kernel {
    temper: Temper,
    rest: Rest,
    /// The next ticket to read.
    head: u32,
    /// The tail and the CQ head as last looked at, together: by [P-CQ] no later head is needed.
    seen_tail: u32,
    seen_head: u32,
    /// Read and not completed.
    pending: Vec<usize>,
    /// Where the next completion goes; those from the published tail on are kept back.
    tail: u32,
    /// Entries before this index are trampled on.
    trampled: u32,
    /// Indices of completions that are no operation's.
    strays: Vec<u32>,
    strays_left: u32,
    /// Operations that were completed.
    over: Vec<usize>,
}

impl Kernel {
    pub(crate) const fn new(shape: Shape, temper: Temper) -> Self {
        Self {
            temper,
            rest: Rest::Awake,
            head: shape.first_ticket,
            seen_tail: shape.first_ticket,
            seen_head: shape.first_completion,
            pending: Vec::new(),
            tail: shape.first_completion,
            trampled: shape.first_completion,
            strays: Vec::new(),
            strays_left: temper.strays,
            over: Vec::new(),
        }
    }
    pub(crate) const fn head(&self) -> u32 {
        self.head
    }

    /// One turn: one step of a kind that chance picks, or in a fair round one of each kind.
    pub(crate) fn step(&mut self, rig: &Rig, model: &mut Model, chance: &mut Chance, fair: bool) {
        if self.rest != Rest::Awake {
            // A sleeper's requests go on: others complete them.
            self.go_to_sleep(rig);
        } else if fair || chance.once_in(self.temper.look) {
            self.look(rig);
        } else if chance.once_in(self.temper.sleep) && self.head == self.seen_tail {
            // ORDERING: relaxed: the fence below orders it before the second look.
            rig.sq_flags().set(IORING_SQ_NEED_WAKEUP);
            self.rest = Rest::Announced;
        }
        if self.rest == Rest::Awake && (fair || chance.once_in(self.temper.read)) {
            self.read(rig, model);
        }
        if fair || chance.once_in(self.temper.finish) {
            self.finish(rig, model, chance);
        }
        if !fair && self.strays_left > 0 && chance.once_in(8) {
            self.stray(rig, model, chance);
        }
        if fair || chance.once_in(self.temper.publish) {
            self.publish(rig);
        }
    }

    fn look(&mut self, rig: &Rig) {
        // ORDERING: acquire, partner the publisher.
        let tail = rig.sq_tail().observe();
        let (new, known) = (tail.wrapping_sub(self.head), self.seen_tail.wrapping_sub(self.head));
        assert!(new >= known && new <= rig.shape.sq_entries, "the tail went back or too far");
        self.seen_tail = tail;
        // ORDERING: acquire, partner `advance`.
        self.seen_head = rig.cq_head().observe();
    }

    fn go_to_sleep(&mut self, rig: &Rig) {
        if self.rest == Rest::Announced {
            wake_fence();
            self.look(rig);
            if self.head == self.seen_tail {
                self.rest = Rest::Asleep;
            } else {
                self.wake(rig);
            }
        }
    }
    pub(crate) fn asks_for_wakeup(&self, rig: &Rig) -> bool {
        // ORDERING: relaxed: the attendant looks again and again.
        rig.sq_flags().peek() & IORING_SQ_NEED_WAKEUP != 0 && rig.sq_tail().peek() != self.head
    }
    pub(crate) fn wake(&mut self, rig: &Rig) {
        rig.sq_flags().set(0);
        self.rest = Rest::Awake;
    }

    /// Reads the next SQE, compares it with the model's, and poisons it.
    fn read(&mut self, rig: &Rig, model: &mut Model) {
        if self.head == self.seen_tail {
            return;
        }
        let entry = rig.sqe(self.head);
        // SAFETY:
        // - one thread runs everything
        let sqe = unsafe { entry.read() };
        // SAFETY:
        // - one thread runs everything
        unsafe { entry.write(GARBAGE_SQE) };
        let known = model.of_ticket(self.head);
        assert_eq!(known.stage, Stage::Committed, "ticket {} is read once, after its commit", self.head);
        assert_eq!(sqe, known.sqe, "ticket {} is read as it was filled", self.head);
        known.stage = Stage::Read;
        self.pending.push(self.head.wrapping_sub(rig.shape.first_ticket) as usize);
        self.head = self.head.wrapping_add(1);
    }

    /// Completes any of the operations read, with any result.
    fn finish(&mut self, rig: &Rig, model: &mut Model, chance: &mut Chance) {
        if self.pending.is_empty() {
            return;
        }
        let in_ring = self.tail.wrapping_sub(self.seen_head);
        let strays = self.strays.iter().filter(|at| at.wrapping_sub(self.seen_head) < in_ring).count();
        let counted = in_ring - u32::try_from(strays).expect("few strays");
        assert!(counted < rig.shape.cq_entries, "the CQ overflows as the kernel counts");
        if !self.has_room(rig) {
            // Only strays can be in the way.
            return;
        }
        // A link of a chain ends when the one before it has.
        let before = |index: usize| index.checked_sub(1).map(|before| model.operations[before]);
        let follows = |index| before(index).filter(|before| before.sqe.flags != 0);
        let may_end = |index: &usize| follows(*index).is_none_or(|before| before.stage >= Stage::Posted);
        let place = chance.index_where(&self.pending, may_end).expect("the first of a chain may end");
        let index = self.pending.swap_remove(place);
        let is_over = follows(index)
            .is_some_and(|before| u32::from(before.sqe.flags) == IOSQE_IO_LINK && before.res < 0);
        let known = &mut model.operations[index];
        known.res = match chance.below(4) {
            0 => -i32::try_from(chance.below(133)).expect("small"),
            1 => i32::try_from(chance.below(4096)).expect("small"),
            2 => i32::MIN,
            _ => u32::try_from(chance.word() >> 32).expect("half").cast_signed(),
        };
        if is_over {
            known.res = -125;
        }
        known.stage = Stage::Posted;
        let token = known.operation.token();
        let cqe =
            Cqe { user_data: token, res: known.res, flags: u32::try_from(chance.below(16)).expect("small") };
        self.over.push(index);
        self.write(rig, model, cqe);
    }

    /// Posts a completion of an operation that is over, or that cannot be.
    fn stray(&mut self, rig: &Rig, model: &mut Model, chance: &mut Chance) {
        if !self.has_room(rig) {
            return;
        }
        let foreign = |user_data| Cqe { user_data, res: -125, flags: 0 };
        let cqe = match chance.below(6) {
            // Once more, right behind the first or long after.
            0..3 if !self.over.is_empty() => {
                let known = model.operations[self.over[chance.below(self.over.len())]];
                Cqe { res: known.res, ..foreign(known.operation.token()) }
            }
            3 => foreign(u64::from(rig.shape.capacity) | (1 << 32)),
            4 => foreign(chance.word() | 1 << 63),
            5 => foreign(0),
            // A slot that exists, in a generation far from any that it reaches.
            _ => foreign((1 << 61) | chance.below(rig.shape.capacity as usize) as u64),
        };
        self.strays_left -= 1;
        self.strays.push(self.tail);
        self.write(rig, model, cqe);
    }

    fn has_room(&self, rig: &Rig) -> bool {
        // ORDERING: acquire, partner `advance`.
        self.tail.wrapping_sub(rig.cq_head().observe()) < rig.shape.cq_entries
    }

    fn write(&mut self, rig: &Rig, model: &mut Model, cqe: Cqe) {
        // SAFETY:
        // - one thread runs everything
        unsafe { rig.cqe(self.tail).write(cqe) };
        assert!(model.completions.insert(self.tail, cqe).is_none());
        self.tail = self.tail.wrapping_add(1);
    }

    /// Lets go of the completions kept back.
    pub(crate) fn publish(&self, rig: &Rig) {
        // ORDERING: release, partner `begin_drain`.
        rig.cq_tail().publish(self.tail);
    }

    /// Overwrites the entries that were given back.
    pub(crate) fn trample(&mut self, rig: &Rig) {
        // ORDERING: acquire, partner `advance`.
        let head = rig.cq_head().observe();
        while self.trampled != head {
            // SAFETY:
            // - one thread runs everything
            unsafe { rig.cqe(self.trampled).write(GARBAGE_CQE) };
            self.trampled = self.trampled.wrapping_add(1);
        }
    }
}

/// A generation that no run reaches names no operation, whatever its slot.
const _: () = assert!(Operation::from_token(1 << 61).generation == 1 << 29);
