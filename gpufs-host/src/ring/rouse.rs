//! Threads of the host's that wait for a ring rouse its attendant. Device calls that the host makes itself, on CPU lanes, may come at any
//! time, and an attendant is parked while no kernel runs.

use std::sync::{Mutex, TryLockError};
use std::thread::Thread;

/// The attendants of this process that live.
static ATTENDANTS: Mutex<Vec<Thread>> = Mutex::new(Vec::new());

/// Has `attendant` roused from now on.
pub(super) fn enter(attendant: &Thread) {
    super::threads::lock(&ATTENDANTS).push(attendant.clone());
}

/// Has it roused no more.
pub(super) fn leave(attendant: &Thread) {
    super::threads::lock(&ATTENDANTS).retain(|other| other.id() != attendant.id());
}

/// Has all attendants look at their rings once. Waits for nobody: whoever waits calls it again.
pub(crate) fn rouse() {
    match ATTENDANTS.try_lock() {
        Ok(attendants) => attendants.iter().for_each(Thread::unpark),
        Err(TryLockError::Poisoned(attendants)) => attendants.into_inner().iter().for_each(Thread::unpark),
        Err(TryLockError::WouldBlock) => {}
    }
}
