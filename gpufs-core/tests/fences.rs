//! The fences of `word` on the processor that runs this: what loom's models take for granted of them. Two threads each store to a word of their own
//! and then load the other's; with a sequentially consistent fence between, one of them at least sees the other's store (the litmus test SB).
//! Without it, the store buffers of x86-64 show both as unseen now and then, where each thread has a core.
#![cfg(not(loom))]

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use gpufs_core::CacheAligned;
use gpufs_core::word::{DeviceWord, SharedWord, device_fence, wake_fence};

/// Rounds between two looks at the clock.
const ROUNDS: u32 = if cfg!(miri) { 20 } else { 1000 };
/// Looks for the other thread's arrival before the core is left to it.
const LOOKS: u32 = 200;
/// Delays of the thread that comes later, in steps of a cycle or two.
const DELAYS: u32 = 256;

/// Runs rounds until a second is over: at least `ROUNDS`, and at most a hundred times as many.
fn repeat(rounds: impl Fn()) {
    let (begun, limit) = (Instant::now(), Duration::from_secs(1));
    for _ in 0..if cfg!(miri) { 1 } else { 100 } {
        rounds();
        if begun.elapsed() > limit {
            break;
        }
    }
}

macro_rules! store_buffering {
    ($word:ident, $fence:ident) => {{
        // Of each thread: the word that it stores to, and the round that it has come to.
        let words = [(); 2].map(|()| CacheAligned($word::new(0)));
        let rounds = [(); 2].map(|()| CacheAligned($word::new(0)));
        let (words, rounds) = (&words, &rounds);
        let run = move |mine: usize| -> Vec<u32> {
            let seen = (1..=ROUNDS).map(|round| {
                rounds[mine].0.publish(round);
                let mut looks = 0;
                // Ends: the other comes to each round.
                while rounds[1 - mine].0.observe() < round {
                    looks += 1;
                    if looks % LOOKS == 0 {
                        thread::yield_now();
                    }
                }
                // The other finds this thread's arrival a little later: of the delays one has both store at once.
                for step in 0..if looks == 0 { round % DELAYS } else { 0 } {
                    black_box(step);
                }
                words[mine].0.set(round);
                $fence();
                words[1 - mine].0.peek()
            });
            seen.collect()
        };
        let [one, other] = thread::scope(|scope| {
            let threads = [0, 1].map(|mine| scope.spawn(move || run(mine)));
            threads.map(|thread| thread.join().expect("it panics nowhere"))
        });
        for ((one, other), round) in one.into_iter().zip(other).zip(1..) {
            assert!(one >= round || other >= round, "round {round}: each loaded before the other's store");
        }
    }};
}

#[test]
fn a_wake_fence_orders_a_store_before_a_load() {
    repeat(|| store_buffering!(SharedWord, wake_fence));
}

#[test]
fn a_device_fence_orders_a_store_before_a_load() {
    repeat(|| store_buffering!(DeviceWord, device_fence));
}
