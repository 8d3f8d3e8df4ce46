//! What comes round.
//!
//! Every number that grows, with the time until it has gone through all its values at the highest rates measured (`docs/performance.md`: 50 GB/s,
//! 400 million lines/s, and, well above what a ring does, 10 million operations/s through one; 50,000 openings and closings/s), and what happens
//! then. "Never" is more than 500 years.
//!
//! | number | where | bits | after | what happens then | test |
//! |---|---|---|---|---|---|
//! | tickets, SQ and CQ indices | [`QueueWords`](crate::QueueWords), the ring | 32 | 7 minutes | they run free: differences are taken modulo 2³², and at most *entries* are in use | `tests/model`, `threads.rs::two_entries` |
//! | publications, publications left behind | `tickets`, `orphaned` | 32 | – | twice the producers present at most: what is served is subtracted | `loom.rs::publish_three` |
//! | a slot's generation | the slot's word | 31 | 3 hours of operations of 5 µs, one after the other in one slot | 1 follows. A token that was kept so long would name the new operation. No lane keeps one beyond its completion, unless it is suspended between a look and its exchange for all that time | `tests/model` |
//! | ... in a kept result | [`journal`](crate::journal) | 31 | the same | a result is compared only with the token in the place's record in force, which names the slot's last operation | `journal.rs::a_kept_result_outlives_its_queue` |
//! | an operation's counters ([`Counters`](crate::Counters)), bytes and lines counted | [`Counters`](crate::Counters) | 64 | never | – | – |
//! | waits without an end | `waits` | 32 | – | lanes that are present: each counts itself once, and is taken off again | `waits.rs` |
//! | rounds of asynchronous operations | `waits` | 32 | months of sessions that synchronize 1,000 times a second | a handle that was kept for exactly so long, and whose slot has come to the same generation, would name a later operation | – |
//! | tickets of a [`TicketLock`](crate::lock::TicketLock) | streams, files | 32 | 7 minutes | they run free: fewer than 2³² lanes wait, of whom each draws one | `lock.rs::a_ticket_lock_comes_round` |
//! | a stream's position | its cursor, `closed_at`, `granted_to` | 48 | 94 minutes | past [`Stream::SPENT`](crate::stream::Stream::SPENT), 2⁴⁷, the fast path is closed, and the next writer under the lock flushes and starts again with a position in the first block | `wrapping.rs::a_stream_that_was_written_for_long_begins_again` |
//! | a stream's room | `available` | 64, signed | never | granted less taken: at most what its blocks hold | `loom_stream.rs` |
//! | a place's `block_number`, `next` | the block, the stream | 48 less log₂ B | as positions | starts again with them | as positions |
//! | journal entries drawn in an epoch | a block's `committed` | 32 | – | cleared with each switch; a commit of an epoch has a byte at least, of which a block has 2²⁰ | `survival.rs` |
//! | journal epochs | a [`Place`](crate::journal::Place) | 64 | never | – | – |
//! | ... in an entry | [`journal`](crate::journal) | 64 less 2 log₂ of a buffer: 24 for 1 MiB | 4 minutes if all switches were one place's, at 70,000/s (3 for each 1 MiB of 25 GB/s) | a round ends: all entries are cleared in an epoch in which none counts | `journal.rs::entries_and_tickets_are_of_their_epoch_alone`, `loom_journal.rs` |
//! | ... beside a ticket | a place's `ticket` | 32 | 17 hours | the same | `journal.rs::a_ticket_that_comes_round_is_not_taken_for_the_next` |
//! | lines | the cursor of [`readahead`](crate::stream::readahead); `base` of a place | 43; 40 | 6 hours; 46 minutes | past [`Lines::SPENT`](crate::stream::readahead::Lines::SPENT), 2³⁹, 23 minutes, lines count as closed, and are opened from 0 on again under the lock | `wrapping.rs::lines_that_are_read_ahead_are_numbered_anew_in_time` |
//! | lines of a block | a place's `lines` | 24 | – | a block has 2²⁰ bytes at most | `fgets.rs` |
//! | callers of lines, `progressing`, `freeing` | [`readahead`](crate::stream::readahead), streams | 20; 32 | – | lanes that are present: a GPU holds some 300,000 | `loom_lines.rs` |
//! | mappings of an entry | [`Mapping`](crate::cache::Mapping) | 31 | 12 hours, if all were one entry's | the number runs on. A handle kept so long after `unmap` would name another file | – |
//! | pins, guards of a page | [`cache`](crate::cache) | 24 | – | lanes that are present | `cache.rs` |
//! | a stream's openings | `generation`; a `File` of Rust | 31 | 12 hours, if all were one entry's | the number runs on. A `File` kept so long after it was closed would name another stream. `fopen` takes one of the free entries at random: with 250 free ones that is 4 months | `wrapping.rs::handles_of_c_come_again_late` |
//! | ... in a handle of C | the handle | 22 | 84 seconds, if all were one entry's | the same: with 250 free entries 6 hours | the same |
//! | places of a [`channel`](crate::channel) | cursors, turns | 32 | minutes | they run free: a turn is compared by its distance, and at most the capacity are in use. A claim that was suspended for exactly 2³² places could succeed late | `channel.rs::places_come_round` |
