//! When the host has a session's tables for itself. Lanes of the session's launches are waited for elsewhere (`synchronize.rs`); calls of other
//! threads, and of lanes of other sessions, pass the tables' gate (`gpufs_core::gate`), which is opened and closed here.

use std::thread;
use std::time::{Duration, Instant};

use gpufs_core::gate::Gate;
use gpufs_core::word::DeviceWord64;

use super::Body;
use crate::ring;

/// Between two looks at which calls are inside.
const NAP: Duration = Duration::from_micros(20);

/// Sessions of this process so far.
static SESSIONS: DeviceWord64 = DeviceWord64::new(0);

/// The number of a new session, which no other session of the process has.
pub(super) fn new_number() -> u64 {
    // ORDERING: relaxed: the number orders nothing.
    SESSIONS.fetch_add_relaxed(1) + 1
}

/// Waits until no call is inside, or until then; whether that is so. No call comes in meanwhile.
fn wait_until_empty(gate: &Gate, until: Option<Instant>) -> bool {
    // Ends: a call that is inside ends, as a kernel does that is waited for, or the time is up.
    while !gate.is_empty() {
        if until.is_some_and(|until| Instant::now() >= until) {
            return false;
        }
        ring::rouse();
        thread::sleep(NAP);
    }
    true
}

/// The host has the tables for itself, but for lanes of the session's own.
#[derive(Debug)]
#[must_use = "calls are let in when this is dropped"]
pub(super) struct Alone(&'static Gate);

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.admit();
    }
}

/// Calls on the host are let in, though the tables are a GPU's.
#[derive(Debug)]
#[must_use = "calls are let in as long as this"]
pub(super) struct Lent(Option<&'static Gate>);

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(gate) = self.0 {
            gate.take_back();
            wait_until_empty(gate, None);
        }
    }
}

impl Body {
    /// Waits until no call of others is inside, or until then, and lets none in as long as the result; `None` where one is inside still.
    pub(super) fn alone_by(&self, until: Option<Instant>) -> Option<Alone> {
        let gate = self.tables.gate;
        gate.exclude();
        let alone = Alone(gate);
        wait_until_empty(gate, until).then_some(alone)
    }
    /// Waits until no call of others is inside, and lets none in as long as the result.
    pub(super) fn alone(&self) -> Alone {
        self.alone_by(None).expect("there is no limit")
    }
    /// Lets calls on the host in as long as the result. The device runs nothing.
    pub(super) fn lend(&self) -> Lent {
        let gate = self.tables.gate;
        Lent(gate.is_elsewhere().then(|| {
            gate.lend();
            gate
        }))
    }
    /// Lets no call in any more, and waits for those that are inside.
    pub(super) fn shut(&self) {
        self.tables.gate.close();
        wait_until_empty(self.tables.gate, None);
    }
}
