//! The table of shared streams by one thread: what an entry is for, and how it comes to each state and out of it.
#![cfg(not(loom))]
#![expect(unsafe_code, reason = "a table of pointers")]

use gpufs_core::Errno;
use gpufs_core::session::TicketLock;
use gpufs_core::shared::{Entry, Left, PATH_BYTES, State, Table, TableParts};

/// A table of three entries, which are free.
struct Tables {
    entries: Vec<Entry>,
    lock: TicketLock,
    paths: Vec<u64>,
}

impl Tables {
    fn new() -> Self {
        let entries: Vec<_> = (0..3).map(|_| Entry::default()).collect();
        entries.iter().for_each(Entry::make_free);
        Self { paths: vec![u64::MAX; entries.len() * PATH_BYTES / 8], entries, lock: TicketLock::default() }
    }
    fn table(&self) -> Table {
        // SAFETY:
        // - all of it outlives the table, in each test
        unsafe {
            Table::new(TableParts {
                entries: self.entries.as_ptr(),
                lock: &raw const self.lock,
                paths: self.paths.as_ptr().expose_provenance() as u64,
                count: 3,
            })
        }
    }
}

/// The count and the state of an entry.
fn stands(entry: &Entry) -> (State, u64) {
    (entry.seen().state(), entry.seen().count())
}

/// What `open` with these begins, for so many lanes; it is open.
fn opened(table: &Table, index: u32, lanes: u32) -> u32 {
    table.prepare(index, Table::key_of(b"path", 5), b"path", 5);
    let epoch = table.begin(index, lanes);
    table.entry(index).opened(7 + index, 3);
    epoch
}

/// As the authors of FNV-1a publish it, with the lowest bit set; the flags are bytes behind the path.
#[test]
fn a_key_is_the_hash_of_path_and_flags() {
    let flags = |bytes| u32::from_le_bytes(bytes);
    assert_eq!(Table::key_of(b"fo", flags(*b"obar")), 0x8594_4171_f739_67e8 | 1);
    assert_eq!(Table::key_of(b"chongo was he", flags(*b"re!\n")), 0x4681_0940_eff5_f915);
    let keys = [(&b""[..], 0), (b"", 1), (b"a", 0), (b"b", 0), (b"\0", 0)];
    for (index, one) in keys.iter().enumerate() {
        for other in &keys[index + 1..] {
            assert_ne!(Table::key_of(one.0, one.1), Table::key_of(other.0, other.1));
        }
    }
}

#[test]
fn an_entry_is_for_the_path_and_the_flags_that_it_was_begun_with() {
    let long = vec![b'x'; PATH_BYTES - 1];
    let mut almost = long.clone();
    almost[PATH_BYTES - 2] = b'y';
    let paths: [&[u8]; 9] =
        [b"", b"a", b"b", b"12345678", b"123456789", b"1234567\xff", b"\xff2345678", &long, &almost];
    let tables = Tables::new();
    let table = tables.table();
    for (mine, flags) in paths.iter().flat_map(|path| [0, 1, u32::MAX].map(|flags| (path, flags))) {
        let key = Table::key_of(mine, flags);
        table.prepare(1, key, mine, flags);
        assert_eq!([0, 1, 2].map(|index| table.hits(index, key)), [false, true, false]);
        assert!(!table.hits(1, key ^ 2));
        assert_eq!(table.entry(1).flags(), flags);
        for (other, others_flags) in paths.iter().flat_map(|path| [0, 1].map(|flags| (path, flags))) {
            let expected = (mine, flags) == (other, others_flags);
            assert_eq!(table.is_for(1, other, others_flags), expected, "{mine:?} {other:?}");
        }
    }
}

#[test]
fn an_entry_is_open_until_as_many_have_left_as_have_joined() {
    let tables = Tables::new();
    let table = tables.table();
    let entry = table.entry(2);
    assert!(!entry.join(entry.seen(), 1), "it is free");
    table.prepare(2, 1, b"path", 0);
    let epoch = table.begin(2, 3);
    assert_eq!(stands(entry), (State::Opening, 3));
    let seen = entry.seen();
    assert!(entry.join(seen, 2));
    assert!(!entry.join(seen, 2), "it has changed since");
    assert!(entry.withdraw(2));
    assert_eq!(entry.leave(epoch, 1), Left::NotOpen);
    entry.opened(9, 77);
    assert_eq!((stands(entry), entry.stream()), ((State::Open, 3), (9, 77)));
    assert!(!entry.withdraw(1));
    assert!(entry.join(entry.seen(), 4));
    for other in [epoch.wrapping_add(1), epoch.wrapping_sub(1)] {
        assert_eq!((entry.leave(other, 1), stands(entry)), (Left::NotOpen, (State::Open, 7)));
    }
    assert_eq!((entry.leave(epoch, 5), stands(entry)), (Left::Others, (State::Open, 2)));
    assert_eq!((entry.leave(epoch, 3), stands(entry)), (Left::Last(2), (State::Closing, 0)));
    assert_eq!(entry.leave(epoch, 1), Left::NotOpen);
    entry.kept_open();
    assert_eq!((entry.leave(epoch, 1), stands(entry)), (Left::Last(1), (State::Closing, 0)));
    entry.closed(false);
    assert_eq!((stands(entry), entry.seen().epoch()), ((State::Free, 0), epoch + 1));
    assert!(!table.hits(2, 1));
}

#[test]
fn lanes_join_as_long_as_the_count_has_room() {
    let most = (1 << 29) - 1;
    let tables = Tables::new();
    for (have, more, joins) in [
        (most - 3, 1, true),
        (most - 3, 2, true),
        (most - 3, 3, false),
        (most - 1, 1, false),
        (1, most, false),
    ] {
        let (table, have, more) = (tables.table(), have as u32, more as u32);
        table.begin(0, have);
        let entry = table.entry(0);
        assert_eq!(entry.join(entry.seen(), more), joins, "{have} and {more}");
        assert_eq!(stands(entry), (State::Opening, u64::from(have + if joins { more } else { 0 })));
    }
}

#[test]
fn an_entry_that_failed_says_why_to_each_that_joined() {
    let tables = Tables::new();
    let table = tables.table();
    let (entry, epoch) = (table.entry(0), table.begin(0, 5));
    entry.failed(Errno::NOENT);
    assert_eq!((stands(entry), entry.errno()), ((State::Failed, 5), Errno::NOENT));
    assert!(!entry.join(entry.seen(), 1));
    entry.leave_failed(2);
    assert_eq!(stands(entry), (State::Failed, 3));
    entry.leave_failed(3);
    assert_eq!((stands(entry), entry.seen().epoch()), ((State::Free, 0), epoch + 1));
}

#[test]
fn an_entry_is_remembered_until_it_is_forgotten_or_used() {
    let tables = Tables::new();
    let table = tables.table();
    let entry = table.entry(1);
    assert!(!entry.is_remembered(), "it was never used");
    let epoch = opened(&table, 1, 1);
    assert!(!entry.is_remembered(), "it is in use");
    entry.forget();
    assert!(table.hits(1, Table::key_of(b"path", 5)), "it is in use");
    assert_eq!(entry.leave(epoch, 1), Left::Last(1));
    entry.closed(true);
    assert!(entry.is_remembered() && table.is_for(1, b"path", 5));
    entry.forget();
    assert!(!entry.is_remembered());
    let epoch = opened(&table, 1, 1);
    assert_eq!(entry.leave(epoch, 1), Left::Last(1));
    entry.closed(false);
    assert!(!entry.is_remembered());
}

/// No kernel runs: what lanes were about ends, what is open stays, and in the end all are dead.
#[test]
fn what_lanes_that_are_gone_were_about_is_freed() {
    let about: [fn(&Table) -> State; 4] = [
        |_| State::Free,
        |table| {
            table.begin(0, 2);
            State::Free
        },
        |table| {
            opened(table, 0, 2);
            State::Open
        },
        |table| {
            let epoch = opened(table, 0, 1);
            assert_eq!(table.entry(0).leave(epoch, 1), Left::Last(1));
            State::Free
        },
    ];
    for (case, begun) in about.into_iter().enumerate() {
        let tables = Tables::new();
        let (table, entry) = (tables.table(), &tables.entries[0]);
        let left = begun(&table);
        entry.let_go();
        assert_eq!(entry.seen().state(), left, "{case}");
        if left == State::Free {
            assert!(!entry.is_remembered(), "{case}");
        }
        entry.kill();
        assert_eq!((stands(entry), entry.is_remembered()), ((State::Dead, 0), false), "{case}");
        assert!(!table.hits(0, Table::key_of(b"path", 5)), "{case}");
    }
    let tables = Tables::new();
    tables.table().begin(0, 2);
    tables.entries[0].failed(Errno::NOENT);
    tables.entries[0].let_go();
    assert_eq!(stands(&tables.entries[0]), (State::Free, 0));
}

/// Each lane of a trace draws a number of its own, from 1 on, and all of them the same salt.
#[test]
fn sequences_of_a_trace_are_drawn_once() {
    for salt in [0, 1, 0xdead_beef, u32::MAX] {
        let entry = Entry::default();
        entry.begin_trace(salt);
        assert_eq!([(); 3].map(|()| entry.draw_sequence()), [1, 2, 3].map(|number| (salt, number)));
    }
}
