//! Channels against a naive model, from seeds, and by threads: the cells, without sleeping.
#![cfg(not(loom))]

use std::collections::VecDeque;

use gpufs_core::Errno;
use gpufs_core::channel::{Bell, CellState, ChannelWords, End, Role, Side, sleep_until};
use gpufs_core::word::{DeviceWord, SharedWord};
use proptest::prelude::*;

/// A channel, both of whose cursors begin at `start`.
struct Channel {
    words: ChannelWords,
    closed: SharedWord,
    turns: Vec<SharedWord>,
    records: Vec<SharedWord>,
    senders: DeviceWord,
    receivers: DeviceWord,
}

impl Channel {
    fn new(cells: u32, start: u32) -> Self {
        let new = Self {
            words: ChannelWords::default(),
            closed: SharedWord::new(0),
            turns: (0..cells).map(|_| SharedWord::new(0)).collect(),
            records: (0..cells).map(|_| SharedWord::new(0)).collect(),
            senders: DeviceWord::new(start),
            receivers: DeviceWord::new(start),
        };
        End::prepare(&new.turns);
        // As after so many records.
        for rank in 0..cells {
            let place = start.wrapping_add(rank);
            new.turns[(place & (cells - 1)) as usize].set(place);
        }
        new
    }
    fn sender(&self) -> End<'_> {
        End::new(&self.words, &self.turns, &self.senders, Role::Sender, Side::Lanes)
    }
    fn receiver(&self) -> End<'_> {
        End::new(&self.words, &self.turns, &self.receivers, Role::Receiver, Side::Host(&self.closed))
    }
    fn send(&self, records: &[u32]) -> usize {
        let end = self.sender();
        let Some(places) = end.claim(u32::try_from(records.len()).unwrap()) else { return 0 };
        for rank in 0..places.count {
            let place = places.first.wrapping_add(rank);
            self.records[end.cell(place)].set(records[rank as usize]);
            end.pass_on(place);
        }
        places.count as usize
    }
    fn receive(&self, most: u32) -> Vec<u32> {
        let end = self.receiver();
        let Some(places) = end.claim(most) else { return Vec::new() };
        let places = (0..places.count).map(|rank| places.first.wrapping_add(rank));
        places
            .map(|place| {
                let record = self.records[end.cell(place)].peek();
                end.pass_on(place);
                record
            })
            .collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send(usize),
    Receive(u32),
}

proptest! {
    /// A channel is a queue with a bound, also where its places come round.
    #[test]
    fn a_channel_is_a_bounded_queue(
        log_cells in 1_u32..6,
        start in prop_oneof![Just(0), Just(u32::MAX - 20), Just(0x7fff_fff0), any::<u32>()],
        steps in prop::collection::vec(
            prop_oneof![(0_usize..40).prop_map(Step::Send), (0_u32..40).prop_map(Step::Receive)], 1..80),
    ) {
        let cells = 1 << log_cells;
        let channel = Channel::new(cells, start);
        let (mut model, mut next) = (VecDeque::new(), 0);
        for step in steps {
            match step {
                Step::Send(count) => {
                    let records: Vec<u32> = (next..).take(count).collect();
                    let sent = channel.send(&records);
                    prop_assert_eq!(sent, count.min(cells as usize - model.len()));
                    model.extend(&records[..sent]);
                    next += u32::try_from(sent).unwrap();
                }
                Step::Receive(most) => {
                    let count = model.len().min(most as usize);
                    let expected: Vec<u32> = model.drain(..count).collect();
                    prop_assert_eq!(channel.receive(most), expected);
                }
            }
        }
    }
}

#[test]
fn places_come_round() {
    let channel = Channel::new(2, u32::MAX - 1);
    for round in 0..8 {
        assert_eq!(channel.send(&[round, round + 100, 0]), 2);
        assert_eq!(channel.sender().look(channel.senders.peek()), CellState::NotYet);
        assert_eq!(channel.receive(9), [round, round + 100]);
        assert_eq!(channel.receiver().look(channel.receivers.peek()), CellState::NotYet);
    }
    assert_eq!(channel.receiver().look(channel.receivers.peek().wrapping_sub(1)), CellState::Past);
}

/// Turns that mean nothing, as a kernel that means harm may leave them: no end waits, and none claims what is not there.
#[test]
fn turns_that_mean_nothing() {
    for turn in [1, 2, 3, 77, u32::MAX, 1 << 31] {
        let channel = Channel::new(2, 0);
        channel.turns[0].set(turn);
        let taken = channel.receive(2).len();
        assert_eq!(taken, usize::from(turn == 1), "{turn}");
    }
}

/// The host's word says to its threads that a channel is closed, the shared one to lanes; neither is the other's.
#[test]
fn each_side_has_its_own_word_of_the_end() {
    let channel = Channel::new(2, 0);
    let both = |channel: &Channel| (channel.sender().is_closed(), channel.receiver().is_closed());
    channel.words.closed.set(1);
    assert_eq!(both(&channel), (true, false), "a kernel wrote it");
    channel.words.closed.set(0);
    channel.receiver().close(&channel.words);
    assert_eq!(both(&channel), (true, true));
    channel.words.closed.set(0);
    assert_eq!(both(&channel), (false, true), "a kernel wrote it");
}

/// A bell is rung once for a side that sleeps, or is about to, and not for one that is awake.
#[test]
fn a_side_that_sleeps_is_woken_once() {
    let channel = Channel::new(2, 0);
    let (lanes, host) = (channel.sender(), channel.receiver());
    assert_eq!((lanes.must_wake(), host.must_wake()), (false, false));
    host.announce();
    assert_eq!((host.must_wake(), lanes.must_wake(), lanes.must_wake()), (false, true, false));
    lanes.announce();
    assert_eq!((lanes.must_wake(), host.must_wake(), host.must_wake()), (false, true, false));
}

/// A bell that rings so often, and then fails; what was done to it.
struct Counted {
    rings_left: u32,
    silenced: u32,
    rung: u32,
}

impl Bell for Counted {
    fn wait(&mut self) -> Result<(), Errno> {
        self.rings_left = self.rings_left.checked_sub(1).ok_or(Errno::TIMEDOUT)?;
        Ok(())
    }
    fn silence(&mut self) {
        self.silenced += 1;
    }
    fn ring(&mut self) {
        self.rung += 1;
    }
}

/// One that has silenced the bell rings it again for others of its side, if there are any ([R-CHANNEL-6]).
#[test]
fn the_last_sleeper_leaves_the_bell_as_it_is() {
    for (others, rings, looks, outcome) in [
        (0, 9, 0, Ok(Some(1))),
        (0, 9, 1, Ok(Some(2))),
        (2, 9, 0, Ok(Some(1))),
        (2, 9, 3, Ok(Some(4))),
        (0, 1, 5, Err(Errno::TIMEDOUT)),
        (1, 1, 5, Err(Errno::TIMEDOUT)),
        (1, 0, 5, Err(Errno::TIMEDOUT)),
    ] {
        let (channel, sleepers) = (Channel::new(2, 0), DeviceWord::new(others));
        let mut bell = Counted { rings_left: rings, silenced: 0, rung: 0 };
        let mut tries = 0;
        let attempt = || {
            tries += 1;
            (tries > looks).then_some(tries)
        };
        assert_eq!(sleep_until(&channel.receiver(), &sleepers, &mut bell, attempt), outcome);
        let silenced = looks.min(rings);
        assert_eq!((bell.silenced, bell.rung), (silenced, u32::from(silenced > 0 && others > 0)));
        assert_eq!(sleepers.peek(), others);
    }
    let (channel, sleepers) = (Channel::new(2, 0), DeviceWord::new(0));
    channel.receiver().close(&channel.words);
    let mut bell = Counted { rings_left: 0, silenced: 0, rung: 0 };
    let ended = sleep_until(&channel.receiver(), &sleepers, &mut bell, || None::<()>);
    assert_eq!((ended, bell.rung), (Ok(None), 0));
}

#[test]
fn several_threads_each_record_once() {
    const EACH: u32 = if cfg!(miri) { 20 } else { 20_000 };
    let channel = Channel::new(16, u32::MAX - 100);
    let mut all = std::thread::scope(|scope| {
        for thread in 0..2 {
            let channel = &channel;
            scope.spawn(move || {
                let mut next = 0;
                // Ends: the receivers take everything.
                while next < EACH {
                    let records: Vec<u32> = (next..EACH).take(3).map(|record| record * 2 + thread).collect();
                    let sent = channel.send(&records);
                    next += u32::try_from(sent).unwrap();
                    if sent == 0 {
                        std::thread::yield_now();
                    }
                }
            });
        }
        let take = |wanted: u32| {
            let mut taken = Vec::new();
            while taken.len() < wanted as usize {
                let more = channel.receive(5.min(wanted - u32::try_from(taken.len()).unwrap()));
                if more.is_empty() {
                    std::thread::yield_now();
                }
                taken.extend(more);
            }
            taken
        };
        let other = scope.spawn(move || take(EACH));
        let mut all = take(EACH);
        for thread in 0..2 {
            let own: Vec<u32> = all.iter().copied().filter(|record| record % 2 == thread).collect();
            assert!(own.is_sorted(), "of one sender, in order");
        }
        all.extend(other.join().unwrap());
        all
    });
    all.sort_unstable();
    assert!(all.into_iter().eq(0..2 * EACH));
}
