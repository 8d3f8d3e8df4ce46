//! Forged channels: a kernel writes to the words, turns and records that it shares with threads of the host, and to the bells.
#![expect(unsafe_code, reason = "what a hostile kernel does")]

use std::thread;
use std::time::{Duration, Instant};

use gpufs_core::Errno;
use gpufs_core::channel::ChannelWords;
use gpufs_core::word::SharedWord;
use gpufs_device::Fs;
use gpufs_device::file::Descriptor;

use super::{Attempt, Expected, Seen};

/// Cells of the channels here.
const CELLS: u32 = 4;
/// How long the host waits for what may never come.
const SOON: Duration = Duration::from_millis(2);

/// What a kernel shares of the session's only channel: its memory is the first that was registered.
struct Words<'a> {
    words: &'a ChannelWords,
    turns: &'a [SharedWord],
}

impl Words<'_> {
    fn of(fs: Fs) -> Self {
        let base = crate::tables_of(fs).regions()[0].address.peek();
        let turns = base + size_of::<ChannelWords>().next_multiple_of(64) as u64;
        Self {
            // SAFETY:
            // - a channel begins with its words, and its memory stays as long as the session, which waits for this kernel
            words: unsafe { &*(base as *const ChannelWords) },
            // SAFETY:
            // - the turns follow, as many as there are cells
            turns: unsafe { std::slice::from_raw_parts(turns as *const SharedWord, CELLS as usize) },
        }
    }
}

pub(super) fn attempts() -> Vec<Attempt> {
    let mut attempts = Vec::new();
    ends(&mut attempts);
    turns(&mut attempts);
    attempts.push(Attempt::new("a forged channel", "a record that nobody wrote", Expected::Own, |world| {
        let mut session = world.another();
        let Ok((errors, _)) = session.channel_from_kernels::<Errno>(CELLS) else { return Seen::Silent };
        let _ = session.run(crate::lanes(1), |fs| Words::of(fs).turns[0].publish(1));
        match errors.receive_for(SOON) {
            Ok(Some(errno)) if (1..=4095).contains(&errno.number()) => Seen::Harmless(errno.to_string()),
            other => Seen::Harm(format!("a record that no value is: {other:?}")),
        }
    }));
    attempts.push(Attempt::new("a forged channel", "everything, meanwhile", Expected::Own, |world| {
        let mut session = world.another();
        let Ok((to, _)) = session.channel_to_kernels::<u64>(CELLS) else { return Seen::Silent };
        let until = Instant::now() + Duration::from_millis(50);
        let launched = session.launch(crate::lanes(1), move |fs| {
            let Words { words, turns } = Words::of(fs);
            let mut number = 1_u32;
            // Ends: in good time.
            while Instant::now() < until {
                number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                turns[number as usize % turns.len()].publish(number >> 28);
                words.closed.publish(number >> 31);
                words.host_asleep.set(number >> 30 & 1);
                words.lanes_asleep.set(number >> 29 & 1);
            }
        });
        let mut sent = 0;
        while Instant::now() < until {
            sent += u32::from(to.send_for(7, SOON).is_ok());
        }
        let ended = launched.is_ok() && session.synchronize().is_ok();
        drop(session);
        if to.send(7) != Err(Errno::PIPE) || !ended {
            return Seen::Harm("the host takes it for open".into());
        }
        Seen::Harmless(format!("{sent} were sent"))
    }));
    attempts.push(Attempt::new("the bells of a channel", "closed and overflowing", Expected::Own, |world| {
        let mut session = world.another();
        let Ok((from, _)) = session.channel_from_kernels::<u64>(CELLS) else { return Seen::Silent };
        let waits = thread::spawn(move || from.receive());
        let ran = session.run(crate::lanes(1), |fs| {
            for number in 3..8 {
                let _ = fs.write(Descriptor(number), &(u64::MAX - 1).to_ne_bytes());
                let _ = fs.close(Descriptor(number));
            }
        });
        drop(session);
        match (ran, waits.join()) {
            (Ok(()), Ok(None)) => Seen::Harmless("the channel was closed".into()),
            other => Seen::Harm(format!("{other:?}")),
        }
    }));
    attempts
}

/// Who says that a channel is closed.
fn ends(attempts: &mut Vec<Attempt>) {
    attempts.push(Attempt::new("a forged channel", "opened again while it closes", Expected::Own, |world| {
        let mut session = world.another();
        let Ok((from, _)) = session.channel_from_kernels::<u64>(CELLS) else { return Seen::Silent };
        let waits = thread::spawn(move || from.receive());
        let launched = session.launch(crate::lanes(1), |fs| {
            let Words { words, .. } = Words::of(fs);
            // Ends: the session's end closes it.
            while words.closed.observe() == 0 {
                std::hint::spin_loop();
            }
            words.closed.publish(0);
        });
        // It waits for the thread, which must not sleep again.
        drop(session);
        match (launched, waits.join()) {
            (Ok(()), Ok(None)) => Seen::Harmless("the thread has ended".into()),
            other => Seen::Harm(format!("{other:?}")),
        }
    }));
    attempts.push(Attempt::new("a forged channel", "closed by a kernel", Expected::Own, |world| {
        let mut session = world.another();
        let Ok((to, _)) = session.channel_to_kernels::<u64>(CELLS) else { return Seen::Silent };
        let _ = session.run(crate::lanes(1), |fs| Words::of(fs).words.closed.publish(1));
        match to.send_for(7, SOON) {
            Ok(()) => Seen::Harmless("the host alone closes it".into()),
            other => Seen::Harm(format!("the host takes it for closed: {other:?}")),
        }
    }));
}

/// Turns of another round, of none, and of all cells at once.
fn turns(attempts: &mut Vec<Attempt>) {
    for turn in [0, 1, 2, CELLS, CELLS + 1, 1 << 16, 1 << 31, u32::MAX] {
        attempts.push(Attempt::new(
            "forged turns of a channel",
            turn.to_string(),
            Expected::Own,
            move |world| {
                let mut session = world.another();
                let Ok((from, _)) = session.channel_from_kernels::<u64>(CELLS) else { return Seen::Silent };
                let forged = session.run(crate::lanes(1), |fs| {
                    Words::of(fs).turns.iter().for_each(|word| word.publish(turn));
                });
                // More looks than there are cells.
                let taken =
                    (0..2 * CELLS).filter(|_| from.receive_for(SOON).is_ok_and(|got| got.is_some())).count();
                drop(session);
                match (forged, from.receive()) {
                    (Ok(()), None) if taken <= CELLS as usize => Seen::Harmless(format!("{taken} records")),
                    other => Seen::Harm(format!("{taken} records, {other:?}")),
                }
            },
        ));
    }
}
