//! Scripts: lists of calls are written to the arena for the kernel `script`, and its answers are read there.
#![expect(unsafe_code, reason = "memory of the arena, by its address")]

use std::ffi::CStr;

use gpufs_device::format::Argument;
use gpufs_host::Grid;
use gpufs_test_kernels::{DONE, END, ERROR, KEEP, Op, STOP, Script, UNTOUCHED, Verb, drawn, script};

use super::calls::{Answer, CHUNK_BYTES, Do, Parts, Payload, Value};
use super::{Data, GATE_AT, Harness};

/// Scripts that were started, and where their answers will be.
#[derive(Debug)]
#[must_use]
pub struct Started {
    ops: Vec<(u64, Vec<Do>)>,
}

impl Harness {
    /// Starts one thread for each list of calls, in blocks of at most 128.
    pub fn start(&mut self, scripts: Vec<Vec<Do>>) -> Started {
        let threads = scripts.len().clamp(1, 128);
        let blocks = scripts.len().div_ceil(threads);
        let small = |count: usize| u32::try_from(count).expect("a grid");
        self.start_in(Grid { blocks: small(blocks), threads: small(threads) }, scripts)
    }

    /// The same in a grid of that many threads or more.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start_in(&mut self, grid: Grid, scripts: Vec<Vec<Do>>) -> Started {
        let room: usize = scripts.iter().flatten().map(Do::room).sum();
        let through = |call: &Do| call.through().is_some_and(|bytes| bytes <= CHUNK_BYTES);
        let wanted = scripts.iter().rposition(|script| script.iter().any(through)).map_or(0, |last| last + 1);
        if self.data != Data::Registered || scripts.iter().flatten().any(|call| matches!(call, Do::Look(_))) {
            self.prepare_chunks(wanted);
        }
        self.reserve(room + scripts.len() * 64 + 4096);
        let count = scripts.len();
        let table = self.take(count * size_of::<Script>());
        let mut started = Started { ops: Vec::new() };
        for (lane, calls) in scripts.into_iter().enumerate() {
            let ops = self.take(calls.len() * size_of::<Op>());
            for (index, call) in calls.iter().enumerate() {
                let op = self.op(lane, index, call);
                self.write(ops + (index * size_of::<Op>()) as u64, op);
            }
            let script = Script { ops, count: calls.len() as u64 };
            self.write(table + (lane * size_of::<Script>()) as u64, script);
            started.ops.push((ops, calls));
        }
        self.busy = true;
        let arguments = script::Arguments {
            scripts: table,
            count: count as u64,
            handles: self.handle(0),
            token: self.token.handle(),
        };
        self.session.start::<script::Entry>(grid, arguments).expect("a launch");
        started
    }

    /// The entry of a call, with its data in the arena.
    fn op(&mut self, lane: usize, index: usize, call: &Do) -> Op {
        let Parts { verb, on, payload, number, choice, keeps } = call.parts();
        let mut op = Op {
            verb,
            on,
            memory: 0,
            through: 0,
            bytes: 0,
            number,
            choice,
            flags: if self.stops { STOP } else { 0 } | if keeps { KEEP } else { 0 },
            value: 0,
            errno: 0,
            state: 0,
            hash: 0,
        };
        let device = match self.data {
            _ if verb == Verb::Look => true,
            Data::Device => true,
            Data::Registered => false,
            Data::Either(seed) => !drawn(seed, (lane << 20 | index) as u64).is_multiple_of(4),
        };
        if let (true, Some(0..=CHUNK_BYTES)) = (device, call.through()) {
            op.through = self.chunks[lane];
        }
        match payload {
            Payload::None => {}
            Payload::Fill(bytes) => self.reading(&mut op, bytes),
            Payload::Bytes(bytes) => self.writing(&mut op, bytes),
            Payload::Text(text) => {
                self.writing(&mut op, text.to_bytes_with_nul());
                op.bytes -= 1;
            }
            Payload::Path(path) => op.memory = self.put(path.to_bytes_with_nul()),
            Payload::PathAndMode(path, mode) => {
                op.memory = self.put(path.to_bytes_with_nul());
                op.bytes = self.put(mode.to_bytes_with_nul());
            }
            Payload::Mode(mode) => op.bytes = self.put(mode.to_bytes_with_nul()),
            Payload::Format(format, values) => self.formatting(&mut op, format, values),
            Payload::Look(path) => {
                (op.memory, op.bytes) = (self.put(path.to_bytes_with_nul()), CHUNK_BYTES as u64);
            }
            Payload::Gate(value) => {
                (op.memory, op.bytes) = (self.entries.as_ptr() as u64 + GATE_AT as u64, value.into());
            }
            Payload::Word(word) => op.bytes = word,
        }
        op
    }
    fn reading(&mut self, op: &mut Op, bytes: usize) {
        let memory = self.take(bytes);
        // SAFETY:
        // - just taken
        unsafe { std::ptr::write_bytes(memory as *mut u8, UNTOUCHED, bytes) };
        (op.memory, op.bytes) = (memory, bytes as u64);
    }
    fn writing(&mut self, op: &mut Op, bytes: &[u8]) {
        (op.memory, op.bytes) = (self.put(bytes), bytes.len() as u64);
    }
    fn formatting(&mut self, op: &mut Op, format: &CStr, values: &[Value]) {
        self.writing(op, format.to_bytes());
        let arguments = self.take(std::mem::size_of_val(values) + 16 * values.len());
        for (index, value) in values.iter().enumerate() {
            let argument = match value {
                Value::Integer(number) => Argument::from(*number),
                Value::Text(text) => {
                    let address = self.put(text.to_bytes_with_nul());
                    // SAFETY:
                    // - a string in the arena, which stays until the kernel has ended
                    unsafe { Argument::c_string(address as *const u8) }
                }
            };
            self.write(arguments + 16 * index as u64, argument);
        }
        (op.number, op.choice) = (arguments.cast_signed(), u32::try_from(values.len()).expect("a few"));
    }

    /// The results of the calls. After [`Harness::synchronize`], and before anything else is started.
    #[must_use]
    pub fn answers(&self, started: Started) -> Vec<Vec<Answer>> {
        let one = |(ops, calls): (u64, Vec<Do>)| {
            let calls = calls.iter().enumerate();
            calls
                .map(|(index, call)| self.answer(self.read(ops + (index * size_of::<Op>()) as u64), call))
                .collect()
        };
        started.ops.into_iter().map(one).collect()
    }
    fn answer(&self, op: Op, call: &Do) -> Answer {
        let done = op.state & DONE != 0;
        let Parts { verb, payload, .. } = call.parts();
        let bytes = match (verb, payload) {
            _ if !done || op.errno == -1 => 0,
            (Verb::Read | Verb::Pread | Verb::Readv | Verb::Preadv | Verb::Preadv2, Payload::Fill(bytes)) => {
                bytes
            }
            (Verb::Fgets, Payload::Fill(bytes)) if op.value == 0 => bytes,
            (Verb::Fscanf, Payload::Fill(bytes)) => bytes,
            // With its NUL.
            (Verb::Getdelim, _) => usize::try_from(op.value + 1).unwrap_or(0),
            (Verb::Fread, _) => usize::try_from(op.value).unwrap_or(0),
            _ => 0,
        };
        Answer {
            value: op.value,
            errno: op.errno,
            bytes: self.get(op.memory, bytes),
            end: op.state & END != 0,
            error: op.state & ERROR != 0,
            done,
            hash: op.hash,
        }
    }
}
