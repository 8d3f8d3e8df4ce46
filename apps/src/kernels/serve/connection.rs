//! One client, whom one lane serves.

use gpufs_device::file::Descriptor;
use gpufs_device::{Errno, Fs};

use super::Job;
use super::buffer::Buffer;
use super::commands::{Outcome, execute};
use super::request::{Parsed, parse};

/// Bytes of a buffer beyond the longest string that a request may have: its other arguments, and what a reply has around a value.
pub const SPARE_BYTES: usize = 1024;

/// A lane's place for a client.
#[derive(Debug)]
pub(super) struct Connection<'a> {
    socket: Option<Descriptor>,
    input: Buffer<'a>,
    output: Buffer<'a>,
    /// Of the request that is being answered, what is in the output.
    parts: usize,
    /// The client has sent all that it will, or is not listened to any more.
    ended: bool,
    /// A request waits for room in the output.
    blocked: bool,
    /// Requests that were answered.
    requests: u64,
}

impl<'a> Connection<'a> {
    /// A place without a client, with memory for what comes and what goes.
    pub(super) fn new(memory: &'a mut [u8]) -> Self {
        let (input, output) = memory.split_at_mut(memory.len() / 2);
        Self {
            socket: None,
            input: Buffer::new(input),
            output: Buffer::new(output),
            parts: 0,
            ended: false,
            blocked: false,
            requests: 0,
        }
    }
    /// The client's socket.
    pub(super) const fn socket(&self) -> Option<Descriptor> {
        self.socket
    }
    /// Requests that were answered.
    pub(super) const fn requests(&self) -> u64 {
        self.requests
    }
    /// Takes a client.
    pub(super) fn open(&mut self, socket: Descriptor) {
        self.input.clear();
        self.output.clear();
        (self.socket, self.parts, self.ended, self.blocked) = (Some(socket), 0, false, false);
    }
    /// Whether there is something to send.
    pub(super) const fn has_output(&self) -> bool {
        self.socket.is_some() && self.output.len() > 0
    }
    /// Whether it can take more from its client.
    pub(super) fn wants_input(&self) -> bool {
        self.socket.is_some() && !self.ended && !self.blocked
    }
    /// No more is taken from the client.
    pub(super) const fn stop(&mut self) {
        self.ended = true;
    }
    /// Whether all is said.
    pub(super) const fn is_over(&self) -> bool {
        self.socket.is_some() && self.ended && self.output.len() == 0 && !self.blocked
    }

    /// Takes what has come; whether something has. The socket does not wait.
    pub(super) fn receive(&mut self, fs: Fs) -> bool {
        let Some(socket) = self.socket else { return false };
        self.input.make_room();
        match fs.recv(socket, self.input.free(), 0) {
            Ok(0) => self.ended = true,
            Ok(count) => self.input.added(count),
            Err(Errno::AGAIN) => return false,
            // It has vanished.
            Err(_) => self.vanish(),
        }
        true
    }
    /// Sends what there is to send; whether something went. The socket does not wait.
    pub(super) fn send(&mut self, fs: Fs) -> bool {
        let Some(socket) = self.socket else { return false };
        match fs.send(socket, self.output.filled(), 0) {
            Ok(count) => self.output.taken(count),
            Err(Errno::AGAIN) => return false,
            Err(_) => self.vanish(),
        }
        true
    }
    /// Closes the socket.
    pub(super) fn close(&mut self, fs: Fs) {
        if let Some(socket) = self.socket.take() {
            // Nobody is left who could be told of an error.
            let _ = fs.close(socket);
        }
    }
    fn vanish(&mut self) {
        self.input.clear();
        self.output.clear();
        (self.ended, self.blocked) = (true, false);
    }

    /// Answers the requests that have come whole, as far as there is room for replies; whether it wants the server to end.
    pub(super) fn answer(&mut self, job: &Job) -> bool {
        let most = self.input.size() - SPARE_BYTES;
        // Ends: each round takes a request, or is the last.
        loop {
            self.blocked = false;
            let (arguments, bytes) = match parse(self.input.filled(), most) {
                Parsed::Request(arguments, bytes) => (arguments, bytes),
                Parsed::Incomplete if self.input.len() == self.input.size() => {
                    self.refuse(b"a request is longer than this server's buffers");
                    return false;
                }
                Parsed::Incomplete => return false,
                Parsed::Wrong(wrong) => {
                    self.refuse(wrong);
                    return false;
                }
            };
            match execute(&job.table, arguments, &mut self.parts, &mut self.output) {
                Outcome::NoRoom => {
                    self.blocked = true;
                    return false;
                }
                Outcome::ShutDown => {
                    self.requests += 1;
                    self.input.clear();
                    self.ended = true;
                    return true;
                }
                Outcome::Quit => {
                    self.requests += 1;
                    self.input.clear();
                    self.ended = true;
                    return false;
                }
                Outcome::Done => {
                    self.requests += 1;
                    self.parts = 0;
                    self.input.taken(bytes);
                }
            }
        }
    }
    /// Says what is wrong with a request, and listens no more.
    fn refuse(&mut self, wrong: &[u8]) {
        if self.output.room() < SPARE_BYTES / 2 {
            self.blocked = true;
            return;
        }
        self.output.put(b"-ERR Protocol error: ");
        self.output.put(wrong);
        self.output.put(b"\r\n");
        self.input.clear();
        self.ended = true;
    }
}
