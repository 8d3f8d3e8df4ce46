//! by accounts: whatever waits forever, in whatever order it began, the lanes that would end such waits find slots.
#![cfg(not(loom))]
#![allow(unsafe_code, reason = "the rig's unsafe steps")]

mod rig;

use gpufs_core::SlotClaim;
use proptest::prelude::*;
use rig::{Rig, Shape};

/// What a lane is at.
#[derive(Debug)]
enum Lane {
    /// A poll without an end: wants to be admitted, then a slot, then waits for ever.
    Poll { admitted: bool, slot: Option<SlotClaim> },
    /// Asynchronous operations without an end, which are started together: want to be admitted, as many as may be, then a slot each, and then
    /// nobody waits for them. A start that is refused is over.
    Started { wanted: u32, admitted: Option<u32>, slots: Vec<SlotClaim> },
    /// An operation on a stream buffer: wants a slot, then waits for ever.
    Stream { slot: Option<SlotClaim> },
    /// An operation that ends once it has its `wanted` slots, 1 or 2, of which it holds none while it waits for the other.
    Ends { wanted: usize, done: bool },
}

impl Lane {
    /// One step.
    fn step(&mut self, rig: &Rig) {
        let queue = &rig.queue;
        match self {
            Self::Poll { admitted, slot } => {
                if !*admitted {
                    *admitted = queue.begin_wait();
                } else if slot.is_none() {
                    *slot = queue.claim(1, 0);
                }
            }
            Self::Started { wanted, admitted: admitted @ None, .. } => {
                *admitted = Some(queue.begin_waits(*wanted));
            }
            Self::Started { admitted: Some(admitted), slots, .. } => {
                if slots.len() < *admitted as usize {
                    let claim = queue.claim(1, 0);
                    slots.extend(claim);
                }
            }
            Self::Stream { slot } => {
                if slot.is_none() {
                    *slot = queue.claim(1, 0);
                }
            }
            Self::Ends { wanted, done } => {
                if !*done {
                    let claims: Vec<SlotClaim> = (0..*wanted).map_while(|_| queue.claim(1, 0)).collect();
                    *done = claims.len() == *wanted;
                    claims.into_iter().for_each(|claim| queue.release(claim));
                }
            }
        }
    }
}

proptest! {
    /// As many polls as like to, streams up to the stream buffers, and others, stepped in any order; then those that end do, whatever the
    /// rest hold. And when polls end, as many may begin as before.
    #[test]
    fn what_ends_finds_slots(
        (buffers, most, spare) in (0_u32..40, 0_u32..40, 2_u32..10),
        polls in 0_usize..100,
        starts in prop::collection::vec(1_u32..64, 0..6),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..600),
    ) {
        let capacity = buffers + most + spare;
        let entries = capacity.next_power_of_two();
        let rig = Rig::new(Shape { capacity, ..Shape::square(entries) });
        rig.queue.limit_waits(most);
        let mut lanes: Vec<Lane> = (0..polls).map(|_| Lane::Poll { admitted: false, slot: None }).collect();
        lanes.extend((0..buffers).map(|_| Lane::Stream { slot: None }));
        let wanted = starts.iter().sum::<u32>();
        let start = |wanted| Lane::Started { wanted, admitted: None, slots: Vec::new() };
        lanes.extend(starts.into_iter().map(start));
        lanes.extend([1, 2, 2].map(|wanted| Lane::Ends { wanted, done: false }));
        for index in &order {
            let lane = index.index(lanes.len());
            lanes[lane].step(&rig);
        }
        // All that waits for ever gets as far as it can.
        for lane in &mut lanes {
            if !matches!(lane, Lane::Ends { .. }) {
                (0..65).for_each(|_| lane.step(&rig));
            }
        }
        for lane in &mut lanes {
            lane.step(&rig);
            let ended = !matches!(lane, Lane::Ends { done: false, .. });
            prop_assert!(ended, "no slots are left for what would end: {} free", rig.queue.free_slots());
            let all = match lane {
                Lane::Started { admitted: Some(admitted), slots, wanted } => {
                    slots.len() == *admitted as usize && *admitted <= *wanted
                }
                _ => false,
            };
            let one = matches!(lane, Lane::Poll { admitted: false, .. } | Lane::Poll { slot: Some(_), .. }
                | Lane::Stream { slot: Some(_) } | Lane::Ends { .. });
            let held = all || one;
            prop_assert!(held, "what was admitted, or has a stream buffer, has a slot: {lane:?}");
        }
        let admitted = lanes.iter().map(|lane| match lane {
            Lane::Poll { admitted: true, .. } => 1,
            Lane::Started { admitted: Some(admitted), .. } => *admitted as usize,
            _ => 0,
        });
        let admitted: usize = admitted.sum();
        prop_assert_eq!(admitted, (polls + wanted as usize).min(most as usize), "no fewer are admitted than may be");
        prop_assert_eq!(rig.queue.waits() as usize, admitted);
        for lane in lanes {
            match lane {
                Lane::Poll { slot: Some(slot), .. } => {
                    rig.queue.release(slot);
                    rig.queue.end_wait();
                }
                Lane::Started { slots, .. } => {
                    let ended = u32::try_from(slots.len()).unwrap();
                    slots.into_iter().for_each(|slot| rig.queue.release(slot));
                    rig.queue.end_waits(ended);
                }
                _ => {}
            }
        }
        let again = (0..=most).take_while(|_| rig.queue.begin_wait()).count();
        prop_assert_eq!(again, most as usize);
    }
}
