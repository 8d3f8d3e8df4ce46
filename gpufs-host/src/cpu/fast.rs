//! The fast scheduler: each OS thread visits its warps in turn, and takes more when those it has wait.

use super::backoff::{Backoff, NAP_MAX, Pause};
use super::resident::{Resident, Tools};
use super::stack::StackPool;
use super::work::Work;
use crate::ring::{Submitter, Wait};

/// Runs warps of `work` on this thread, up to `limit` at a time, until no more are to be had and all have ended. It
/// enters a ring meanwhile if it has a submitter.
pub(super) fn run(work: &Work<'_>, limit: usize, mut submitter: Option<&mut Submitter>) {
    let mut tools = Tools { work, stacks: StackPool::new(work.stack_bytes) };
    let mut residents: Vec<Box<Resident>> = Vec::new();
    let mut spare: Vec<Box<Resident>> = Vec::new();
    let mut backoff = Backoff::default();
    let mut all_taken = false;
    loop {
        // A lane can run; a lane has called something.
        let (mut busy, mut called) = (false, false);
        // One more for each pass: a kernel that never waits runs warp after warp on the same few warm stacks.
        if !all_taken && residents.len() < limit {
            if let Some(new) = work.take() {
                let resident = spare.pop().unwrap_or_else(|| Box::new(Resident::new(work, false)));
                resident.warp.begin(new.origin, new.lanes);
                residents.push(resident);
                busy = true;
            } else {
                all_taken = true;
            }
        }
        if residents.is_empty() {
            return;
        }
        let give_up = work.is_past_grace();
        let mut nap_ns = u32::MAX;
        let mut index = 0;
        while index < residents.len() {
            let resident = &mut residents[index];
            busy |= resident.visit(&mut tools, give_up);
            called |= resident.warp.progress.take();
            nap_ns = nap_ns.min(resident.warp.nap_ns.replace(u32::MAX));
            if resident.has_ended() {
                spare.push(residents.swap_remove(index));
            } else {
                index += 1;
            }
        }
        if busy || called {
            backoff.reset();
        }
        if !busy {
            // Lanes that call and nap in turns get the naps that they ask for.
            let pause = backoff.pause(nap_ns, called);
            if !submitter.as_deref_mut().is_some_and(|submitter| wait_in_ring(submitter, pause, called)) {
                pause.take();
            }
        } else if let Some(submitter) = &mut submitter {
            submitter.submit_published();
        }
    }
}

/// Waits in a ring for what the lanes wait for; whether it did. `called`: a lane has called something since.
fn wait_in_ring(submitter: &mut Submitter, pause: Pause, called: bool) -> bool {
    if super::runtime::are_abroad() {
        submitter.leave();
        return false;
    }
    submitter.submit_and_wait(match pause {
        Pause::Go => Wait::Moment,
        Pause::Sleep(time) if called => Wait::Until(time),
        Pause::Sleep(time) => Wait::Until(time.max(NAP_MAX)),
        Pause::Yield => Wait::Until(NAP_MAX),
    })
}
