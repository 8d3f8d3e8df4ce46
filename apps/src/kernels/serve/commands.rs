//! What each command does to the table, and its reply.

use super::buffer::Buffer;
use super::number::Digits;
use super::request::Arguments;
use super::table::{Full, NotAdded, Table};

/// Room for any reply but those with values.
const REPLY_BYTES: usize = 256;

/// What came of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is done, and its reply is in the buffer.
    Done,
    /// Its reply, or the rest of it, waits for room. It is called again.
    NoRoom,
    /// The client wants no more.
    Quit,
    /// The server is to end.
    ShutDown,
}

const OUT_OF_MEMORY: &[u8] = b"-OOM command not allowed when the table's memory is full\r\n";
const NO_INTEGER: &[u8] = b"-ERR value is not an integer or out of range\r\n";

/// Carries a request out. `parts`: what of its reply is in the buffer already, 0 when it is called first.
pub(super) fn execute(
    table: &Table,
    mut arguments: Arguments<'_>,
    parts: &mut usize,
    out: &mut Buffer<'_>,
) -> Outcome {
    if out.room() < REPLY_BYTES {
        return Outcome::NoRoom;
    }
    let Some(name) = arguments.next() else { return Outcome::Done };
    let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
    let left = arguments.left();
    let wrong_count = if is(b"GET") || is(b"INCR") {
        left != 1
    } else if is(b"SET") {
        left < 2
    } else if is(b"MGET") || is(b"DEL") || is(b"EXISTS") {
        left < 1
    } else if is(b"MSET") {
        left < 2 || !left.is_multiple_of(2)
    } else if is(b"PING") {
        left > 1
    } else {
        false
    };
    if wrong_count {
        return refuse(out, b"-ERR wrong number of arguments for '", name, b"' command\r\n");
    }
    if is(b"GET") {
        get(table, arguments.next().unwrap_or(&[]), out)
    } else if is(b"SET") {
        set(table, arguments, out)
    } else if is(b"MGET") {
        get_several(table, arguments, parts, out)
    } else if is(b"MSET") {
        set_several(table, arguments, out)
    } else if is(b"DEL") {
        let mut count = 0;
        arguments.for_each(|key| count += i64::from(table.remove(key)));
        integer(out, count)
    } else if is(b"EXISTS") {
        let mut count = 0;
        arguments.for_each(|key| count += i64::from(table.get(key, |_| ()).is_some()));
        integer(out, count)
    } else if is(b"INCR") {
        match table.add(arguments.next().unwrap_or(&[]), 1) {
            Ok(sum) => integer(out, sum),
            Err(NotAdded::Full) => say(out, OUT_OF_MEMORY),
            Err(NotAdded::NoNumber) => say(out, NO_INTEGER),
            Err(NotAdded::Overflow) => say(out, b"-ERR increment or decrement would overflow\r\n"),
        }
    } else if is(b"PING") {
        match arguments.next() {
            None => say(out, b"+PONG\r\n"),
            Some(text) => value(out, text),
        }
    } else {
        others(table, name, arguments, out)
    }
}

/// Commands about the server.
fn others(table: &Table, name: &[u8], mut arguments: Arguments<'_>, out: &mut Buffer<'_>) -> Outcome {
    let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
    if is(b"DBSIZE") {
        integer(out, i64::try_from(table.count()).unwrap_or(i64::MAX))
    } else if is(b"FLUSHALL") {
        table.clear();
        say(out, b"+OK\r\n")
    } else if is(b"COMMAND") {
        // The table of commands, which clients ask for when they start, and can do without.
        say(out, b"*0\r\n")
    } else if is(b"CONFIG") {
        let is_get = arguments.next().is_some_and(|word| word.eq_ignore_ascii_case(b"GET"));
        match (is_get, arguments.next()) {
            // Nothing is kept on a disk.
            (true, Some(word)) if word.eq_ignore_ascii_case(b"save") => {
                say(out, b"*2\r\n$4\r\nsave\r\n$0\r\n\r\n")
            }
            (true, Some(word)) if word.eq_ignore_ascii_case(b"appendonly") => {
                say(out, b"*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n")
            }
            (true, Some(_)) => say(out, b"*0\r\n"),
            _ => say(out, b"-ERR CONFIG has GET and one name\r\n"),
        }
    } else if is(b"QUIT") {
        out.put(b"+OK\r\n");
        Outcome::Quit
    } else if is(b"SHUTDOWN") {
        Outcome::ShutDown
    } else {
        refuse(out, b"-ERR unknown command '", name, b"'\r\n")
    }
}

fn get(table: &Table, key: &[u8], out: &mut Buffer<'_>) -> Outcome {
    table.get(key, |found| value(out, found)).unwrap_or_else(|| say(out, b"$-1\r\n"))
}

fn set(table: &Table, mut arguments: Arguments<'_>, out: &mut Buffer<'_>) -> Outcome {
    let (Some(key), Some(text), None) = (arguments.next(), arguments.next(), arguments.next()) else {
        return say(out, b"-ERR syntax error\r\n");
    };
    match table.set(key, text) {
        Ok(()) => say(out, b"+OK\r\n"),
        Err(Full) => say(out, OUT_OF_MEMORY),
    }
}

fn get_several(table: &Table, arguments: Arguments<'_>, parts: &mut usize, out: &mut Buffer<'_>) -> Outcome {
    if *parts == 0 {
        let mut digits = Digits::new();
        out.put(b"*");
        out.put(digits.of(i64::try_from(arguments.left()).unwrap_or(i64::MAX)));
        out.put(b"\r\n");
        *parts = 1;
    }
    for key in arguments.skip(*parts - 1) {
        if out.room() < REPLY_BYTES || get(table, key, out) == Outcome::NoRoom {
            return Outcome::NoRoom;
        }
        *parts += 1;
    }
    Outcome::Done
}

/// Where there is no room for all, those that come first are set.
fn set_several(table: &Table, mut arguments: Arguments<'_>, out: &mut Buffer<'_>) -> Outcome {
    while let (Some(key), Some(text)) = (arguments.next(), arguments.next()) {
        if table.set(key, text).is_err() {
            return say(out, OUT_OF_MEMORY);
        }
    }
    say(out, b"+OK\r\n")
}

/// A reply that is a constant, for which there is room.
fn say(out: &mut Buffer<'_>, text: &[u8]) -> Outcome {
    out.put(text);
    Outcome::Done
}

/// An error about a command's name, of which no more is said than there is room for.
fn refuse(out: &mut Buffer<'_>, before: &[u8], name: &[u8], after: &[u8]) -> Outcome {
    out.put(before);
    for &byte in name.iter().take(64) {
        out.put(&[if byte.is_ascii_graphic() { byte } else { b'?' }]);
    }
    out.put(after);
    Outcome::Done
}

fn integer(out: &mut Buffer<'_>, number: i64) -> Outcome {
    let mut digits = Digits::new();
    out.put(b":");
    out.put(digits.of(number));
    out.put(b"\r\n");
    Outcome::Done
}

/// A string, whole or not at all.
fn value(out: &mut Buffer<'_>, text: &[u8]) -> Outcome {
    if out.room() < text.len() + 32 {
        return Outcome::NoRoom;
    }
    let mut digits = Digits::new();
    out.put(b"$");
    out.put(digits.of(i64::try_from(text.len()).unwrap_or(i64::MAX)));
    out.put(b"\r\n");
    out.put(text);
    out.put(b"\r\n");
    Outcome::Done
}
