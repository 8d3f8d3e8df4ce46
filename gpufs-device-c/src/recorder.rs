//! Recorders of traces. Where an event has no values and there is room, `include/gpufs/trace.h` stores it itself.

use gpufs_core::trace::{Kind, TimePrefix};
use gpufs_device::trace::{Counter, Recorder, RecorderParts};
use gpufs_device::{Call, Errno};
use static_assertions::assert_eq_size;

use crate::arguments::done;
use crate::trace::{RawEvent, RawPlace, RawTrace, RawValue, fill, place, values};

/// `gpufs_trace_recorder`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RawRecorder {
    /// The trace.
    pub trace: RawTrace,
    /// Where the next event goes.
    pub next: u64,
    /// Bytes that have room there.
    pub room: u32,
    /// The lane that writes.
    pub owner: u32,
    /// Whether it is the caller.
    pub writes: u32,
    /// Nothing.
    pub kept: u32,
    /// What packets have in common for now.
    pub prefix: TimePrefix,
}

assert_eq_size!(RawRecorder, [u64; 8]);

impl RawRecorder {
    fn of(recorder: Recorder, trace: RawTrace) -> Self {
        let RecorderParts { next, room, owner, writes, prefix } = recorder.into_parts();
        Self { trace, next, room, owner, writes: u32::from(writes), kept: 0, prefix }
    }
    /// # Errors
    /// As [`RawTrace::get`].
    ///
    /// # Safety
    /// One that [`gpufs_raw_trace_recorder`] filled in for this lane, and that is not finished.
    unsafe fn get(self) -> Result<Recorder, Errno> {
        let Self { trace, next, room, owner, writes, prefix, .. } = self;
        // SAFETY:
        // - this function's contract
        let trace = unsafe { trace.get(Call::TraceEvent) }?;
        let parts = RecorderParts { next, room, owner, writes: writes != 0, prefix };
        // SAFETY:
        // - this function's contract
        Ok(unsafe { Recorder::from_parts(trace, parts) })
    }
    /// Lets a recorder write, and notes where it is then.
    ///
    /// # Safety
    /// As [`RawRecorder::get`].
    unsafe fn with(&mut self, put: impl FnOnce(&mut Recorder) -> Result<(), Errno>) -> Result<(), Errno> {
        // SAFETY:
        // - this function's contract
        let mut recorder = unsafe { self.get() }?;
        let put = put(&mut recorder);
        *self = Self::of(recorder, self.trace);
        put
    }
}

/// A recorder of a trace: 0, or a negated errno.
///
/// # Safety
/// `trace` is null or a trace that [`gpufs_raw_trace_open`](crate::trace::gpufs_raw_trace_open) filled in, `into` null or a place for a recorder.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_trace_recorder(
    trace: *const RawTrace,
    into: *mut RawRecorder,
) -> i64 {
    let make = || {
        if into.is_null() {
            return Err(Errno::FAULT);
        }
        // SAFETY:
        // - this function's contract
        let raw = *unsafe { place(trace) }?;
        // SAFETY:
        // - this function's contract
        let trace = unsafe { raw.get(Call::TraceEvent) }?;
        Ok(RawRecorder::of(trace.recorder()?, raw))
    };
    let made = make();
    // SAFETY:
    // - this function's contract
    unsafe { fill(into, made) }
}

/// An event by a recorder, 1 for the begin of a span, 2 for an end, which has no event, 3 for a moment: 0, or a negated errno.
///
/// # Safety
/// `recorder` is null or one that [`gpufs_raw_trace_recorder`] filled in for this lane, and not finished; `event` is null or an event that
/// [`gpufs_raw_trace_event`](crate::trace::gpufs_raw_trace_event) filled in, `event_values` null or as many values.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_trace_record(
    recorder: *mut RawRecorder,
    kind: u32,
    event: *const RawEvent,
    event_values: *const RawValue,
) -> i64 {
    let put = || {
        // SAFETY:
        // - this function's contract
        let recorder = unsafe { recorder.as_mut() }.ok_or(Errno::FAULT)?;
        if kind == Kind::End as u32 {
            // SAFETY:
            // - this function's contract
            return unsafe { recorder.with(Recorder::end) };
        }
        let kind = if kind == Kind::Begin as u32 { Kind::Begin } else { Kind::Instant };
        // SAFETY:
        // - this function's contract
        let event = unsafe { place(event) }?;
        // SAFETY:
        // - this function's contract
        let trace = unsafe { event.trace.get(Call::TraceEvent) }?;
        // SAFETY:
        // - this function's contract
        let (values, count) = unsafe { values(event, event_values) }?;
        let (names, values) = (&event.value_names[..count], &values[..count]);
        // SAFETY:
        // - this function's contract
        unsafe { recorder.with(|recorder| recorder.record(kind, trace, event.name, (names, values))) }
    };
    done(put())
}

/// A counter's value by a recorder: 0, or a negated errno.
///
/// # Safety
/// As [`gpufs_raw_trace_record`]; `counter` is null or one that [`gpufs_raw_trace_counter`](crate::trace::gpufs_raw_trace_counter) filled in,
/// `value` null or a value.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_trace_record_counter(
    recorder: *mut RawRecorder,
    counter: *const RawPlace,
    value: *const RawValue,
) -> i64 {
    let put = || {
        // SAFETY:
        // - this function's contract
        let recorder = unsafe { recorder.as_mut() }.ok_or(Errno::FAULT)?;
        // SAFETY:
        // - this function's contract
        let counter = unsafe { place(counter) }?;
        // SAFETY:
        // - this function's contract
        let value = unsafe { place(value) }?.value()?;
        // SAFETY:
        // - this function's contract
        let trace = unsafe { counter.trace.get(Call::TraceEvent) }?;
        let counter = Counter::new(trace, counter.word);
        // SAFETY:
        // - this function's contract
        unsafe { recorder.with(|recorder| recorder.set(counter, value)) }
    };
    done(put())
}

/// Finishes a recorder, once: 0, or a negated errno.
///
/// # Safety
/// As [`gpufs_raw_trace_record`], or one that is finished.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_trace_recorder_finish(recorder: *mut RawRecorder) -> i64 {
    // SAFETY:
    // - this function's contract
    let Some(raw) = (unsafe { recorder.as_mut() }) else { return done(Err(Errno::FAULT)) };
    // What was finished has no piece any more.
    let taken = *raw;
    (raw.next, raw.room) = (0, 0);
    // SAFETY:
    // - this function's contract
    done(unsafe { taken.get() }.map(Recorder::finish))
}
