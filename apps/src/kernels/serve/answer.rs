//! From requests to replies: what a lane does with what its client has sent.

use super::buffer::Buffer;
use super::commands::{Outcome, execute};
use super::copy::IS_GPU;
use super::request::{Arguments, Parsed, parse};
use super::table::Table;

/// Bytes of a buffer beyond the longest string that a request may have: its other arguments, and what a reply has around a value.
pub const SPARE_BYTES: usize = 1024;

/// Requests of a client that are read before the first of them is carried out: a CPU fetches what they concern side by side. On a GPU other lanes go
/// on while one waits for its memory.
const AHEAD: usize = if IS_GPU { 1 } else { 16 };

/// How far the answers to a client have come.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Of the request that is being answered, what is in the output.
    parts: usize,
    /// The client has sent all that it will, or is not listened to any more.
    pub(super) ended: bool,
    /// A request waits for room in the output.
    pub(super) blocked: bool,
    /// Requests that were answered, of all clients.
    pub(super) requests: u64,
}

impl Answers {
    /// A client has come.
    pub(super) const fn begin(&mut self) {
        (self.parts, self.ended, self.blocked) = (0, false, false);
    }
    /// The client has gone.
    pub(super) const fn end(&mut self) {
        (self.parts, self.ended, self.blocked) = (0, true, false);
    }

    /// Answers the requests that have come whole, as far as there is room for replies; whether it wants the server to end.
    pub(super) fn answer(&mut self, table: &Table, input: &mut Buffer<'_>, output: &mut Buffer<'_>) -> bool {
        let most = input.size() - SPARE_BYTES;
        // Ends: each round takes requests, or is the last.
        loop {
            self.blocked = false;
            let text = input.filled();
            let mut requests = [const { None }; AHEAD];
            let stop = read(text, most, &mut requests);
            if requests.get(1).is_some_and(Option::is_some) {
                look_ahead(table, &requests);
            }
            let (mut taken, mut outcome) = (0, Outcome::Done);
            for (arguments, bytes) in requests.iter_mut().map_while(Option::take) {
                outcome = execute(table, arguments, &mut self.parts, output);
                if outcome != Outcome::NoRoom {
                    self.requests += 1;
                }
                if outcome != Outcome::Done {
                    break;
                }
                self.parts = 0;
                taken += bytes;
            }
            input.taken(taken);
            match (outcome, stop) {
                (Outcome::Done, None) => {}
                (Outcome::Done, Some(Stop::Incomplete)) if input.len() == input.size() => {
                    self.refuse(b"a request is longer than this server's buffers", input, output);
                    return false;
                }
                (Outcome::Done, Some(Stop::Incomplete)) => return false,
                (Outcome::Done, Some(Stop::Wrong(wrong))) => {
                    self.refuse(wrong, input, output);
                    return false;
                }
                (Outcome::NoRoom, _) => {
                    self.blocked = true;
                    return false;
                }
                (Outcome::ShutDown | Outcome::Quit, _) => {
                    input.clear();
                    self.ended = true;
                    return outcome == Outcome::ShutDown;
                }
            }
        }
    }
    /// Says what is wrong with a request, and listens no more.
    fn refuse(&mut self, wrong: &[u8], input: &mut Buffer<'_>, output: &mut Buffer<'_>) {
        if output.room() < SPARE_BYTES / 2 {
            self.blocked = true;
            return;
        }
        output.put(b"-ERR Protocol error: ");
        output.put(wrong);
        output.put(b"\r\n");
        input.clear();
        self.ended = true;
    }
}

/// A request that was read, and how many bytes it has.
type Read<'a> = Option<(Arguments<'a>, usize)>;

/// Why no more requests were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Incomplete,
    Wrong(&'static [u8]),
}

/// Reads the requests that a text begins with, as far as there is room for them; why there are no more, if that is known.
fn read<'a>(text: &'a [u8], most: usize, requests: &mut [Read<'a>; AHEAD]) -> Option<Stop> {
    let mut rest = text;
    for request in requests {
        match parse(rest, most) {
            Parsed::Request(arguments, bytes) => {
                *request = Some((arguments, bytes));
                rest = rest.get(bytes..).unwrap_or(&[]);
            }
            Parsed::Incomplete => return Some(Stop::Incomplete),
            Parsed::Wrong(wrong) => return Some(Stop::Wrong(wrong)),
        }
    }
    None
}

/// Brings what the requests concern nearer, all at once: first where their keys are looked for, then what lies there.
fn look_ahead(table: &Table, requests: &[Read<'_>; AHEAD]) {
    let mut hashes = [None; AHEAD];
    for ((arguments, _), hash) in requests.iter().map_while(Option::as_ref).zip(&mut hashes) {
        *hash = arguments.clone().nth(1).map(|key| table.fetch_slot(key));
    }
    for hash in hashes.into_iter().flatten() {
        table.fetch_block(hash);
    }
}
