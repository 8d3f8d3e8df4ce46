//! The journal's encoding and its epochs, and what a queue keeps of results.
#![cfg(not(loom))]
#![allow(unsafe_code, reason = "the journal is given pointers to the test's memory")]

mod rig;

use std::ptr;

use gpufs_core::abi::Cqe;
use gpufs_core::journal::{Journal, JournalParts, Place, Record};
use gpufs_core::word::{EntryCell, SharedWord64};
use gpufs_core::{Delivery, Operation, Slot};

const ENTRIES: u32 = 16;

/// Two buffers of `1 << shift` bytes, whose places stand at `epoch`.
fn tables(epoch: u64) -> (Vec<Place>, Vec<SharedWord64>) {
    let place = || Place {
        epoch: SharedWord64::new(epoch),
        ticket: SharedWord64::new(0),
        records: [EntryCell::new(Record::default()), EntryCell::new(Record::default())],
    };
    (vec![place(), place()], (0..2 * ENTRIES).map(|_| SharedWord64::new(0)).collect())
}

fn journal(places: &[Place], entries: &[SharedWord64], shift: u32) -> Journal {
    let (places, entries) = (places.as_ptr(), entries.as_ptr());
    // SAFETY:
    // - the caller uses it while it has them
    unsafe {
        Journal::new(JournalParts { places, entries, files: ptr::null(), entries_per_buffer: ENTRIES, shift })
    }
}

fn whole(journal: &Journal, buffer: u32, epoch: u64) -> Vec<(u32, u32)> {
    journal.entries(buffer).iter().filter_map(|entry| journal.whole(entry.peek(), epoch)).collect()
}

/// Commits that have an entry by their place have one each, whatever their order, and those that draw have what is left of the table.
#[test]
fn each_commit_of_a_buffer_has_an_entry_of_its_own() {
    for shift in [12, 16, 20] {
        let (places, entries) = tables(0);
        let (journal, bytes) = (journal(&places, &entries, shift), 1 << shift);
        assert_eq!(Journal::entries_for(bytes), bytes / 64 + bytes / 256);
        for length in [1, 2, 63] {
            assert_eq!([0, 1, bytes - length].map(|start| Journal::entry_at(start, length)), [None; 3]);
        }
        for length in [64, 65, 200] {
            let starts = (0..bytes - length).step_by(length as usize);
            let by_place: Vec<u32> = starts.map(|start| Journal::entry_at(start, length).unwrap()).collect();
            assert!(by_place.windows(2).all(|pair| pair[0] < pair[1]), "{length}");
            assert_eq!(by_place.first(), Some(&0));
        }
        let (last, first_drawn) = (Journal::entry_at(bytes - 64, 64), journal.entry_drawn(0));
        assert_eq!((last, journal.entry_drawn(5)), (Some(first_drawn - 1), first_drawn + 5));
        assert_eq!(journal.entry_drawn(bytes / 256), Journal::entries_for(bytes), "there is none left");
        assert_eq!(journal.entry_drawn(u32::MAX), u32::MAX, "whatever was drawn");
    }
}

#[test]
fn a_files_word_says_what_a_kernel_opens_or_has_open() {
    let words: Vec<_> = (0..3).map(|_| SharedWord64::new(0)).collect();
    let parts = JournalParts { files: words.as_ptr(), ..*journal(&[], &[], 12) };
    // SAFETY:
    // - the words outlive it, and nothing else of it is looked at
    let journal = unsafe { Journal::new(parts) };
    let says = |index| (journal.opening(index), journal.opened(index));
    assert_eq!(says(1), (None, None));
    // Of any generation, ring and slot.
    for token in [1 << 32, u64::MAX >> 1, 0x1234_5678_9abc_def0, 1 << 62 | 1 << 32] {
        journal.note_opening(1, token);
        assert_eq!(says(1), (Some(token), None));
    }
    for descriptor in [0, 1, 1023, i32::MAX] {
        journal.note_open(1, descriptor.cast_unsigned());
        assert_eq!(says(1), (None, Some(descriptor)));
    }
    assert_eq!([0, 2].map(says), [(None, None); 2], "another file's");
    journal.note_close(1);
    assert_eq!(says(1), (None, None));
}

#[test]
fn a_journal_without_words_of_files_notes_none() {
    let journal = journal(&[], &[], 12);
    journal.note_opening(0, 1 << 32);
    journal.note_open(0, 3);
    journal.note_close(0);
    assert_eq!((journal.opening(0), journal.opened(0)), (None, None));
}

#[test]
fn entries_hold_any_range_of_a_buffer() {
    for shift in [12, 16, 20] {
        let (places, entries) = tables(0);
        let journal = journal(&places, &entries, shift);
        let bytes = 1 << shift;
        let epoch = journal.switch(1, 0, Record::default());
        assert_eq!(epoch, 1);
        let ranges = [(0, bytes), (0, 1), (bytes - 1, bytes), (5, bytes - 7)];
        for (index, (start, end)) in (0..).zip(ranges) {
            assert!(journal.enter(1, epoch, index, start, end - start));
        }
        assert!(!journal.enter(1, epoch, ENTRIES, 0, 1), "there is no such entry");
        assert_eq!(whole(&journal, 1, epoch), ranges);
        assert_eq!(whole(&journal, 0, epoch), [], "another buffer's");
        let next = journal.switch(1, epoch, Record { block_number: 7, stream: 1, ..Record::default() });
        assert_eq!(whole(&journal, 1, next), [], "an earlier epoch's");
        // SAFETY:
        // - nobody switches
        let (record, in_force, ticket) = unsafe { journal.in_force(1) }.unwrap();
        assert_eq!((record.block_number, in_force, ticket), (7, next, None));
        journal.note_ticket(1, next, 9);
        // SAFETY:
        // - nobody switches
        assert_eq!(unsafe { journal.in_force(1) }.unwrap().2, Some(9));
        journal.clear_owner(1);
        // SAFETY:
        // - nobody switches
        let (record, _, ticket) = unsafe { journal.in_force(1) }.unwrap();
        assert_eq!((record.stream, ticket), (0, None));
        // SAFETY:
        // - nobody switches
        assert!(unsafe { journal.in_force(0) }.is_none());
    }
}

#[test]
fn an_epoch_that_comes_round_finds_no_old_entry() {
    for shift in [16, 20] {
        let round = 1 << (64 - 2 * shift);
        let last = round - 1;
        let (places, entries) = tables(last - 1);
        let journal = journal(&places, &entries, shift);
        let mut epoch = journal.switch(0, last - 1, Record { block_number: 1, ..Record::default() });
        assert_eq!(epoch, last);
        assert!(journal.enter(0, epoch, 3, 10, 20));
        assert_eq!(whole(&journal, 0, epoch), [(10, 30)]);
        for block_number in 2..10 {
            let before = epoch;
            epoch = journal.switch(0, epoch, Record { block_number, ..Record::default() });
            assert!(journal.entry_epoch(epoch) != 0, "0 marks an unused entry");
            assert_ne!(epoch & 1, before & 1, "the record in force is not overwritten");
            // SAFETY:
            // - nobody switches
            assert_eq!(unsafe { journal.in_force(0) }.unwrap().0.block_number, block_number);
            assert_eq!(whole(&journal, 0, epoch), []);
        }
        assert_eq!(whole(&journal, 0, last), [], "a round later");
    }
}

/// A thousand rounds and more of few epochs; in some epochs something is entered, or a ticket noted.
#[test]
fn entries_and_tickets_are_of_their_epoch_alone() {
    for shift in [31, 30, 28] {
        let (places, entries) = tables(0);
        let journal = journal(&places, &entries, shift);
        let (mut epoch, mut rounds) = (0, 0);
        for block_number in 1..1 << (64 - 2 * shift + 10) {
            let before = epoch;
            epoch = journal.switch(0, epoch, Record { block_number, ..Record::default() });
            rounds += u32::from(journal.entry_epoch(epoch) < journal.entry_epoch(before));
            assert_eq!(whole(&journal, 0, epoch), [], "epoch {epoch}");
            let index = (block_number % 7) as u32;
            if index < 3 {
                assert!(journal.enter(0, epoch, index, 10, 20));
                assert_eq!(whole(&journal, 0, epoch), [(10, 30)]);
            }
            if block_number % 5 == 0 {
                journal.note_ticket(0, epoch, index);
            }
            // SAFETY:
            // - nobody switches
            let (record, in_force, ticket) = unsafe { journal.in_force(0) }.unwrap();
            let noted = (block_number % 5 == 0).then_some(index);
            assert_eq!(
                (record.block_number, in_force, ticket),
                (block_number, epoch, noted),
                "epoch {epoch}"
            );
        }
        assert!(rounds >= 1000, "{rounds} rounds");
    }
}

/// 2³² switches on, where entries tell their epochs apart for longer.
#[test]
fn a_ticket_that_comes_round_is_not_taken_for_the_next() {
    let round = 1 << 32;
    let (places, entries) = tables(round - 2);
    let journal = journal(&places, &entries, 12);
    let mut epoch = journal.switch(0, round - 2, Record::default());
    journal.note_ticket(0, epoch, 7);
    // SAFETY:
    // - nobody switches
    assert_eq!(unsafe { journal.in_force(0) }.unwrap().2, Some(7));
    assert!(journal.enter(0, epoch, 1, 10, 20));
    for _ in 0..3 {
        epoch = journal.switch(0, epoch, Record::default());
        assert_ne!(epoch % round, 0);
    }
    // As if there had been so many switches.
    places[0].epoch.set(2 * round - 1);
    // SAFETY:
    // - nobody switches
    assert_eq!(unsafe { journal.in_force(0) }.unwrap().2, None);
    assert_eq!(whole(&journal, 0, 2 * round - 1), []);
}

#[test]
fn a_kept_result_outlives_its_queue() {
    let results: Vec<_> = (0..2).map(|_| SharedWord64::new(0)).collect();
    let mut shape = rig::Shape::square(2);
    shape.cq_entries = 4;
    let rig = rig::Rig::with_results(shape, results.as_ptr());
    let claim = rig.queue.claim(2, 0).unwrap();
    assert_eq!(claim.count(), 2);
    // SAFETY:
    // - claimed above, and never released
    let operations = [0, 1].map(|slot| unsafe { rig.queue.arm(Slot(slot)) });
    let tokens = operations.map(Operation::token);
    for (index, user_data, res) in [(0, tokens[0] | Operation::JOURNALED, -28), (1, tokens[1], 5)] {
        // SAFETY:
        // - nobody polls yet
        unsafe { rig.cqe(index).write(Cqe { user_data, res, ..Cqe::default() }) };
    }
    rig.cq_tail().publish(2);
    let drain = rig.queue.begin_drain(2).unwrap();
    let copies = [0, 1].map(|index| rig.queue.entry(&drain, index));
    let copies = copies.map(Some);
    rig.queue.keep(&copies);
    // SAFETY:
    // - both entries were copied above
    unsafe { rig.queue.advance(&drain) };
    assert_eq!(rig.queue.deliver_all(&copies), [Some(Delivery::Delivered); 2]);
    // SAFETY:
    // - advanced and delivered above
    unsafe { rig.queue.end_drain(drain) };
    assert_eq!(
        results[0].peek(),
        u64::from(operations[0].generation) << 32 | u64::from((-28_i32).cast_unsigned())
    );
    assert_eq!(results[1].peek(), 0, "nobody asked to keep it");
}
