//! A channel between two sides, explored by loom: each record arrives once and whole, and nobody sleeps for ever beside a record.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_channel --release`
//!
//! Bounded as `loom.rs` is. A bell is a flag with a condition variable: a receiver that nobody wakes is a deadlock, which loom reports.
//!
//! Tried by hand, one at a time:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | `pass_on` stores the turn relaxed | `each_record_once` |
//! | `look` loads the turn relaxed | `each_record_once` |
//! | `claim_from` stores the cursor, without an exchange | `each_record_once` |
//! | `must_wake` without its fence | `one_sleeps` |
//! | `announce` without its fence | `one_sleeps` |
//! | `must_wake` clears the word and rings nothing | `one_sleeps` |
//! | `sleep_until` looks before it announces, and not after | `one_sleeps` |
//! | who has silenced the bell goes without ringing it | `two_sleep` |
//! | `sleep_until` looks for `closed` after its attempt | `close_behind_a_record` |
#![cfg(loom)]
#![expect(unsafe_code, reason = "records that turns guard")]

use gpufs_core::Errno;
use gpufs_core::channel::{Bell, ChannelWords, End, Role, Side, sleep_until};
use gpufs_core::word::{DeviceWord, SharedWord};
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread::{self, JoinHandle};

/// A channel of two cells whose receivers are lanes.
struct World {
    words: ChannelWords,
    closed: SharedWord,
    turns: [SharedWord; 2],
    records: [UnsafeCell<u32>; 2],
    senders: DeviceWord,
    receivers: DeviceWord,
    sleepers: DeviceWord,
    rings: Mutex<bool>,
    changed: Condvar,
}

// SAFETY:
// - records are written and read by whose turn it is; loom finds where that fails
unsafe impl Sync for World {}
// SAFETY:
// - as above
unsafe impl Send for World {}

/// The bell of the receivers.
struct ReceiversBell<'a>(&'a World);

impl Bell for ReceiversBell<'_> {
    fn wait(&mut self) -> Result<(), Errno> {
        let mut rings = self.0.rings.lock().unwrap();
        while !*rings {
            rings = self.0.changed.wait(rings).unwrap();
        }
        Ok(())
    }
    fn silence(&mut self) {
        *self.0.rings.lock().unwrap() = false;
    }
    fn ring(&mut self) {
        *self.0.rings.lock().unwrap() = true;
        self.0.changed.notify_all();
    }
}

impl World {
    fn new() -> Self {
        let turns = [0, 1].map(SharedWord::new);
        Self {
            words: ChannelWords::default(),
            closed: SharedWord::new(0),
            turns,
            records: [0, 0].map(UnsafeCell::new),
            senders: DeviceWord::new(0),
            receivers: DeviceWord::new(0),
            sleepers: DeviceWord::new(0),
            rings: Mutex::new(false),
            changed: Condvar::new(),
        }
    }
    fn sender(&self) -> End<'_> {
        End::new(&self.words, &self.turns, &self.senders, Role::Sender, Side::Host(&self.closed))
    }
    fn receiver(&self) -> End<'_> {
        End::new(&self.words, &self.turns, &self.receivers, Role::Receiver, Side::Lanes)
    }
    /// Sends what there is room for, in one batch: how many.
    fn send(&self, records: &[u32]) -> usize {
        let end = self.sender();
        let wanted = u32::try_from(records.len()).unwrap();
        let Some(places) = end.claim(wanted) else { return 0 };
        for rank in 0..places.count {
            let place = places.first.wrapping_add(rank);
            // SAFETY:
            // - the place was claimed at this end's turn
            self.records[end.cell(place)].with_mut(|record| unsafe { *record = records[rank as usize] });
            end.pass_on(place);
        }
        if end.must_wake() {
            ReceiversBell(self).ring();
        }
        places.count as usize
    }
    fn try_receive(&self) -> Option<u32> {
        let end = self.receiver();
        let place = end.claim(1)?.first;
        // SAFETY:
        // - the place was claimed at this end's turn
        let record = self.records[end.cell(place)].with(|record| unsafe { *record });
        end.pass_on(place);
        Some(record)
    }
    fn receive(&self) -> Option<u32> {
        let end = self.receiver();
        sleep_until(&end, &self.sleepers, &mut ReceiversBell(self), || self.try_receive()).unwrap()
    }
    fn close(&self) {
        self.sender().close(&self.words);
        ReceiversBell(self).ring();
    }
}

fn explore(preemptions: usize, model: impl Fn(&Arc<World>) + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    let setting = |name| std::env::var(name).ok().map(|text: String| text.parse().expect("a number"));
    builder.preemption_bound = Some(preemptions + setting("GPUFS_LOOM_SWITCHES").unwrap_or(0));
    builder.max_duration = setting("GPUFS_LOOM_SECONDS").map(|s| std::time::Duration::from_secs(s as u64));
    builder.check(move || model(&Arc::new(World::new())));
}

fn spawn<T: 'static>(world: &Arc<World>, run: impl FnOnce(&World) -> T + 'static) -> JoinHandle<T> {
    let world = Arc::clone(world);
    thread::spawn(move || run(&world))
}

/// Two send, two take; the cells come round.
#[test]
fn each_record_once() {
    explore(2, |world| {
        assert_eq!(world.send(&[1, 2, 9]), 2, "two cells");
        let first = spawn(world, World::try_receive);
        let second = spawn(world, |world| (world.send(&[3]), world.try_receive()));
        let (sent, taken) = second.join().unwrap();
        let mut all: Vec<u32> = [first.join().unwrap(), taken].into_iter().flatten().collect();
        all.extend(std::iter::from_fn(|| world.try_receive()));
        all.sort_unstable();
        assert_eq!(all, if sent == 1 { vec![1, 2, 3] } else { vec![1, 2] });
    });
}

/// One sends while one goes to sleep.
#[test]
fn one_sleeps() {
    explore(3, |world| {
        let receiver = spawn(world, World::receive);
        assert_eq!(world.send(&[7]), 1);
        assert_eq!(receiver.join().unwrap(), Some(7));
    });
}

/// Two sleep, and one batch is for both: one ring wakes one, who silences it.
#[test]
fn two_sleep() {
    explore(2, |world| {
        let receivers = [0; 2].map(|_| spawn(world, World::receive));
        assert_eq!(world.send(&[7, 8]), 2);
        let mut taken = receivers.map(|receiver| receiver.join().unwrap());
        taken.sort_unstable();
        assert_eq!(taken, [Some(7), Some(8)]);
    });
}

/// Two senders, one of which finds that the other has cleared the word; two who sleep.
#[test]
fn two_senders_two_sleep() {
    explore(1, |world| {
        let receivers = [0; 2].map(|_| spawn(world, World::receive));
        let sender = spawn(world, |world| assert_eq!(world.send(&[7]), 1));
        assert_eq!(world.send(&[8]), 1);
        sender.join().unwrap();
        let mut taken = receivers.map(|receiver| receiver.join().unwrap());
        taken.sort_unstable();
        assert_eq!(taken, [Some(7), Some(8)]);
    });
}

/// Closing ends every wait, and loses nothing that was sent before.
#[test]
fn close_behind_a_record() {
    explore(2, |world| {
        let receivers = [0; 2].map(|_| spawn(world, World::receive));
        assert_eq!(world.send(&[7]), 1);
        world.close();
        let mut taken = receivers.map(|receiver| receiver.join().unwrap());
        taken.sort_unstable();
        assert_eq!(taken, [None, Some(7)]);
    });
}
