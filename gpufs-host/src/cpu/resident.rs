//! A warp with the fibers of its lanes: starting, resuming, unwinding and ending them.
#![expect(unsafe_code, reason = "fibers that borrow the kernel")]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use corosensei::{Coroutine, CoroutineResult};

use super::error::LaunchError;
use super::runtime::while_running;
use super::stack::{LaneStack, StackPool};
use super::warp::{Names, Warp, WarpBroken, lanes_of};
use super::work::Work;

type Fiber = Coroutine<(), (), (), LaneStack>;

/// How many resumptions a visit makes before other warps get their turn.
const VISIT_RESUMPTIONS_MAX: u32 = 1024;

/// What an OS thread's warps share.
#[derive(Debug)]
pub(super) struct Tools<'w> {
    pub(super) work: &'w Work<'w>,
    pub(super) stacks: StackPool,
}

/// A warp that is resident on an OS thread.
pub(super) struct Resident {
    /// Shared with the lanes' fibers, whose frames hold references to it across suspensions.
    pub(super) warp: Rc<Warp>,
    /// The fibers of the lanes that have started and not ended. A lane starts, and takes a stack, when it is first run.
    fibers: Vec<Option<Fiber>>,
}

impl Resident {
    pub(super) fn new(work: &Work<'_>, preempts: bool) -> Self {
        let width = work.width;
        Self {
            warp: Rc::new(Warp::new(width, preempts, (work.number, work.session))),
            fibers: (0..width).map(|_| None).collect(),
        }
    }

    /// Whether every lane has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.warp.live.is_empty()
    }

    /// Runs lanes until all that are left nap or wait for one that naps, or until others should get their turn. Naps end when
    /// this begins, unless lanes are left over from the last visit: groups that nap again and again would take the turns of those. With `give_up`
    /// the lanes that nap are unwound instead. Whether a lane could still run.
    ///
    /// `calling` closes a group only when no lane can run any more: whoever can still come has come. Lanes that nap are asked
    /// once more before, and then do not count, as what they wait for may be a lane that is parked.
    pub(super) fn visit(&mut self, tools: &mut Tools<'_>, give_up: bool) -> bool {
        if give_up {
            self.give_up_napping(tools);
        }
        let mut nappers_came = self.warp.ready.is_empty();
        if nappers_came {
            self.warp.ready.insert(self.warp.napping.take());
        }
        let mut resumptions = 0;
        while resumptions < VISIT_RESUMPTIONS_MAX {
            if !self.warp.ready.is_empty() {
                self.run(self.warp.ready.mask().trailing_zeros(), tools);
                resumptions += 1;
            } else if let Some(oldest) = self.warp.longest_parked() {
                if !nappers_came && !self.warp.napping.is_empty() {
                    self.warp.ready.insert(self.warp.napping.take());
                    nappers_came = true;
                } else {
                    // Oldest first: no call waits for ever while others come again and again.
                    self.warp.release(self.warp.parked_with(oldest));
                    nappers_came = false;
                }
            } else {
                debug_assert!(self.has_ended() || !self.warp.napping.is_empty());
                return false;
            }
        }
        true
    }

    /// Resumes `lane`, which is ready, until it suspends or ends.
    pub(super) fn run(&mut self, lane: u32, tools: &mut Tools<'_>) {
        debug_assert!(self.warp.ready.contains(lane));
        self.warp.ready.remove(1 << lane);
        if self.fibers[lane as usize].is_none()
            && let Err(error) = self.start(lane, tools)
        {
            tools.work.fail(LaunchError::System(error));
            return self.end(lane, tools);
        }
        let fiber = self.fibers[lane as usize].as_mut().expect("the lane has started");
        let outcome = while_running(&self.warp, lane, || catch_unwind(AssertUnwindSafe(|| fiber.resume(()))));
        match outcome {
            Ok(CoroutineResult::Yield(())) => {}
            Ok(CoroutineResult::Return(())) => self.end(lane, tools),
            Err(payload) => {
                self.warp.set_broken();
                self.report(lane, payload.as_ref(), tools);
                self.end(lane, tools);
            }
        }
    }

    /// Makes the fiber of `lane`.
    fn start(&mut self, lane: u32, tools: &mut Tools<'_>) -> std::io::Result<()> {
        let stack = tools.stacks.take()?;
        let kernel = tools.work.kernel;
        let warp = Rc::as_ptr(&self.warp);
        let body = move |yielder: &corosensei::Yielder<(), ()>, ()| {
            // SAFETY:
            // - the fiber is ended or unwound before `self` lets go of the warp (`Drop`)
            // - the warp is only ever borrowed shared
            unsafe { &*warp }.started(lane, yielder);
            kernel();
        };
        // SAFETY:
        // - `body` borrows the kernel, which outlives `tools.work`, and that outlives this resident: the worker's residents are
        //   gone before it returns
        // - the fiber is driven to its end or unwound, never forgotten (`Drop`)
        self.fibers[lane as usize] = Some(unsafe { Fiber::with_stack_unchecked(stack, body) });
        Ok(())
    }

    /// Takes the ended `lane` out of the warp, and gives up the lanes that wait for it.
    fn end(&mut self, lane: u32, tools: &mut Tools<'_>) {
        if let Some(fiber) = self.fibers[lane as usize].take() {
            tools.stacks.put_back(fiber.into_stack());
        }
        let missed = self.warp.end(lane);
        if missed.waiting == 0 {
            return;
        }
        self.warp.set_broken();
        let (waiting, what) = (Names(missed.waiting), missed.what);
        // What a panic said is already reported, and stays.
        tools.work.fail_at(
            self.warp.position(lane),
            format!("lane {lane} ended while lanes {waiting} wait for it in {what:?}"),
        );
        for waiting in lanes_of(missed.waiting) {
            // One that was given up may have taken others with it.
            if self.warp.live.contains(waiting) {
                self.give_up(waiting, tools);
            }
        }
    }

    /// Unwinds the lanes that nap.
    pub(super) fn give_up_napping(&mut self, tools: &mut Tools<'_>) {
        for lane in lanes_of(self.warp.napping.mask()) {
            self.give_up(lane, tools);
        }
    }

    /// Unwinds `lane`, which is suspended and will never be resumed.
    fn give_up(&mut self, lane: u32, tools: &mut Tools<'_>) {
        self.warp.set_broken();
        // From here on the lane's warp operations, called by destructors, return at once.
        self.warp.live.remove(1 << lane);
        if let Some(fiber) = self.fibers[lane as usize].as_mut() {
            let outcome =
                while_running(&self.warp, lane, || catch_unwind(AssertUnwindSafe(|| fiber.force_unwind())));
            if let Err(payload) = outcome {
                self.report(lane, payload.as_ref(), tools);
            }
        }
        self.end(lane, tools);
    }

    /// Reports the panic of `lane`, unless it is only an echo of another lane's.
    fn report(&self, lane: u32, payload: &(dyn Any + Send), tools: &Tools<'_>) {
        if payload.is::<WarpBroken>() {
            return;
        }
        let message = payload
            .downcast_ref::<&str>()
            .map(|message| (*message).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a payload that is no text".to_owned());
        tools.work.fail_at(self.warp.position(lane), message);
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        // Fibers that are still suspended are there only if the worker itself panicked. Their unwinding uses the warp.
        for (lane, fiber) in (0..).zip(&mut self.fibers) {
            if let Some(mut fiber) = fiber.take() {
                self.warp.live.remove(1 << lane);
                while_running(&self.warp, lane, || {
                    drop(catch_unwind(AssertUnwindSafe(|| fiber.force_unwind())));
                });
            }
        }
    }
}
