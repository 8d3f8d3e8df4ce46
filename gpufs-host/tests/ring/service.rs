//! The ring service: wakes, parks, loses no wake-up, and is cheap.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use gpufs_core::abi::{CURRENT_POSITION, IORING_SQ_NEED_WAKEUP, Sqe};
use gpufs_host::ring::{Mode, Ring, RingConfig, RingService};

use super::client::{Client, address, kinds, open};

/// Waits until `happened` returns true.
fn until(mut happened: impl FnMut() -> bool) {
    let started = Instant::now();
    while !happened() {
        assert!(started.elapsed() < Duration::from_secs(240), "it does not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_sleeping_kernel_thread_is_woken() {
    for (name, config) in kinds().into_iter().filter(|(_, config)| config.mode == Mode::Sqpoll) {
        let Some(ring) = open(name, &RingConfig { idle_ms: 2, ..config }) else { continue };
        let service = RingService::start(&[&ring]).unwrap();
        let mut client = Client::new(&ring);
        let flags = ring.parts().sq_flags;
        for round in 1..=3 {
            let asleep = |client: &Client| client.word(flags).observe() & IORING_SQ_NEED_WAKEUP != 0;
            // Asleep, and staying so: past its last reading of the tail, and with the service parked.
            until(|| asleep(&client));
            std::thread::sleep(Duration::from_millis(10));
            assert!(asleep(&client));
            let entry = client.push(Sqe::nop());
            std::thread::sleep(Duration::from_millis(20));
            assert!(!client.is_done(entry), "nobody may have woken it");
            let guard = service.busy();
            assert_eq!(client.wait(entry), 0);
            assert!(service.report().rings[0].wake_ups >= round);
            drop(guard);
        }
        println!("{name}: {:?}", service.report());
    }
}

#[test]
fn a_busy_kernel_thread_needs_few_polls() {
    for (name, config) in kinds().into_iter().filter(|(_, config)| config.mode == Mode::Sqpoll) {
        let Some(ring) = open(name, &RingConfig { idle_ms: 200, ..config }) else { continue };
        let service = RingService::start(&[&ring]).unwrap();
        let mut client = Client::new(&ring);
        let guard = service.busy();
        let busy = |client: &mut Client| {
            let started = Instant::now();
            while started.elapsed() < Duration::from_millis(400) {
                assert_eq!(client.run(Sqe::nop()), 0);
            }
        };
        // The first poll after the thread's sleep finds nothing that was done since the one before, nor does one that finds the client or the
        // thread waiting for a processor. With naps of a millisecond it would be four hundred, each time.
        until(|| {
            let polls = service.report().polls;
            busy(&mut client);
            service.report().polls - polls <= 100
        });
        // Polls are frequent again before it sleeps: a client that finds it asleep does not wait for a long nap.
        until(|| client.word(ring.parts().sq_flags).observe() & IORING_SQ_NEED_WAKEUP != 0);
        until(|| {
            let polls = service.report().polls;
            std::thread::sleep(Duration::from_millis(20));
            service.report().polls > polls + 2
        });
        assert_eq!(client.run(Sqe::nop()), 0);
        assert!(service.report().rings[0].wake_ups > 0, "{name}");
        drop(guard);
    }
}

#[test]
fn it_parks_when_nothing_runs() {
    for (name, config) in kinds() {
        let Some(ring) = open(name, &config) else { continue };
        let service = RingService::start(&[&ring]).unwrap();
        let (first, second) = (service.busy(), service.busy());
        drop(first);
        let polls = service.report().polls;
        until(|| service.report().polls > polls + 2);
        drop(second);
        std::thread::sleep(Duration::from_millis(20));
        let polls = service.report().polls;
        std::thread::sleep(Duration::from_millis(50));
        assert!(service.report().polls <= polls + 1, "{name}: it polls while nothing runs");
    }
}

#[test]
fn no_guard_is_lost() {
    for (name, config) in kinds() {
        let Some(ring) = open(name, &RingConfig { idle_ms: 1, ..config }) else { continue };
        let service = RingService::start(&[&ring]).unwrap();
        let mut client = Client::new(&ring);
        for round in 0..300 {
            // Lengths that shift against the service's own, so that every stage of its parking is met.
            let pause = Instant::now();
            while pause.elapsed() < Duration::from_micros(round % 100) {
                std::hint::spin_loop();
            }
            let _guard = service.busy();
            assert_eq!(client.run(Sqe::nop()), 0);
        }
    }
}

#[test]
fn what_was_published_before_the_end_is_served() {
    for (name, config) in kinds() {
        let Some(ring) = open(name, &RingConfig { idle_ms: 1, ..config }) else { continue };
        let service = RingService::start(&[&ring]).unwrap();
        let mut client = Client::new(&ring);
        for _ in 0..100 {
            let busy = service.busy();
            // The kernel ends a submission at an invalid entry: one poll is not enough.
            let entries = [Sqe { opcode: 250, ..Sqe::nop() }, Sqe::nop()].map(|sqe| client.push(sqe));
            drop(busy);
            assert_eq!(entries.map(|entry| client.wait(entry)), [-libc::EINVAL, 0]);
        }
    }
}

#[test]
fn what_is_in_flight_completes_while_it_is_parked() {
    for (name, config) in kinds() {
        let Some(ring) = open(name, &config) else { continue };
        let service = RingService::start(&[&ring]).unwrap();
        let mut client = Client::new(&ring);
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut byte = 0_u8;
        let read = Sqe::read(reader.as_raw_fd(), address(&raw mut byte), 1, CURRENT_POSITION);
        let guard = service.busy();
        let entry = client.push(read);
        assert_eq!(client.run(Sqe::nop()), 0);
        drop(guard);
        std::thread::sleep(Duration::from_millis(10));
        assert!(!client.is_done(entry));
        writer.write_all(b"x").unwrap();
        assert_eq!(client.wait(entry), 1, "{name}");
    }
}

#[test]
fn one_service_serves_rings_of_all_kinds() {
    let rings: Vec<Ring> = kinds().iter().filter_map(|(name, config)| open(name, config)).collect();
    let service = RingService::start(&rings.iter().collect::<Vec<_>>()).unwrap();
    assert!(RingService::start(&[&rings[0]]).is_err(), "a ring has one service");
    let _guard = service.busy();
    let mut clients: Vec<Client> = rings.iter().map(Client::new).collect();
    for _ in 0..50 {
        let entries: Vec<u64> = clients.iter_mut().map(|client| client.push(Sqe::nop())).collect();
        for (client, entry) in clients.iter_mut().zip(entries) {
            assert_eq!(client.wait(entry), 0);
        }
    }
}

#[test]
fn a_ring_may_be_closed_before_its_service() {
    for (name, config) in kinds() {
        let Some(ring) = open(name, &config) else { continue };
        let service = RingService::start(&[&ring]).unwrap();
        let busy = service.busy();
        ring.close();
        std::thread::sleep(Duration::from_millis(2));
        drop(busy);
    }
}

/// Prints what watching costs; the bound is far above it, for machines that are busy otherwise.
#[test]
fn watching_idle_rings_is_cheap() {
    for (name, config) in kinds() {
        let Some(ring) = open(name, &config) else { continue };
        let service = RingService::start(&[&ring]).unwrap();
        let guard = service.busy();
        let (before, started) = (service.report(), Instant::now());
        std::thread::sleep(Duration::from_millis(500));
        let (after, elapsed) = (service.report(), started.elapsed());
        drop(guard);
        let share = (after.cpu_time - before.cpu_time).as_secs_f64() / elapsed.as_secs_f64();
        let polls = (after.polls - before.polls) as f64 / elapsed.as_secs_f64();
        println!("{name}: {:.1} % of a core, {polls:.0} polls/s", share * 100.0);
        assert!(share < 0.15, "{name}: {share}");
    }
}
