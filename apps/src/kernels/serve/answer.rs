//! From requests to replies: what a lane does with what its client has sent.

use super::buffer::Buffer;
use super::commands::{Outcome, execute};
use super::request::{Parsed, parse};
use super::table::Table;

/// Bytes of a buffer beyond the longest string that a request may have: its other arguments, and what a reply has around a value.
pub const SPARE_BYTES: usize = 1024;

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
        // Ends: each round takes a request, or is the last.
        loop {
            self.blocked = false;
            let (arguments, bytes) = match parse(input.filled(), most) {
                Parsed::Request(arguments, bytes) => (arguments, bytes),
                Parsed::Incomplete if input.len() == input.size() => {
                    self.refuse(b"a request is longer than this server's buffers", input, output);
                    return false;
                }
                Parsed::Incomplete => return false,
                Parsed::Wrong(wrong) => {
                    self.refuse(wrong, input, output);
                    return false;
                }
            };
            match execute(table, arguments, &mut self.parts, output) {
                Outcome::NoRoom => {
                    self.blocked = true;
                    return false;
                }
                Outcome::ShutDown => {
                    self.requests += 1;
                    input.clear();
                    self.ended = true;
                    return true;
                }
                Outcome::Quit => {
                    self.requests += 1;
                    input.clear();
                    self.ended = true;
                    return false;
                }
                Outcome::Done => {
                    self.requests += 1;
                    self.parts = 0;
                    input.taken(bytes);
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
