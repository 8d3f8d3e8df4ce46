//! A host thread that waits for a ring rouses the ring services. The host makes device calls itself at any time, on CPU lanes, and a
//! service is parked while no kernel runs.

use std::sync::{Mutex, TryLockError};
use std::thread::Thread;

/// The threads of this process's ring services.
static SERVICES: Mutex<Vec<Thread>> = Mutex::new(Vec::new());

/// From now on [`rouse`] wakes `service`.
pub(super) fn enter(service: &Thread) {
    super::workers::lock(&SERVICES).push(service.clone());
}

/// From now on [`rouse`] leaves `service` alone.
pub(super) fn leave(service: &Thread) {
    super::workers::lock(&SERVICES).retain(|other| other.id() != service.id());
}

/// Makes every service poll its rings once. Returns at once, even where it could not: a caller that still waits calls it again.
pub(crate) fn rouse() {
    match SERVICES.try_lock() {
        Ok(services) => services.iter().for_each(Thread::unpark),
        Err(TryLockError::Poisoned(services)) => services.into_inner().iter().for_each(Thread::unpark),
        Err(TryLockError::WouldBlock) => {}
    }
}
