//! Traces. What C has of one are structures of numbers, whose layouts `include/gpufs/trace.h` asserts, too.

use core::ffi::{CStr, c_char, c_int};

use gpufs_core::session::SessionTables;
use gpufs_device::trace::{Counter, Span, Trace, Value};
use gpufs_device::{Call, Errno, File};
use static_assertions::assert_eq_size;

use crate::arguments::{self, done, result, session};

/// `gpufs_trace`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RawTrace {
    /// The stream's handle.
    pub file: u64,
    /// The writer.
    pub sequence: u32,
    /// What else a [`Trace`] is made of.
    pub rest: u32,
    /// The piece of its writer.
    pub piece: u32,
    /// Nothing.
    pub kept: u32,
}

/// Values of an event at most: `GPUFS_TRACE_VALUES_MAX`.
pub const VALUES_MAX: usize = gpufs_core::trace::VALUES_MAX;
/// Bytes within which a name has its NUL: `GPUFS_TRACE_NAME_BYTES`, and one more.
const NAME_BYTES: usize = gpufs_core::trace::NAME_BYTES_MAX + 1;

/// `gpufs_trace_event`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RawEvent {
    /// The trace.
    pub trace: RawTrace,
    /// The name's number.
    pub name: u32,
    /// How many values.
    pub count: u32,
    /// The numbers of their names.
    pub value_names: [u32; VALUES_MAX],
}

/// `gpufs_trace_span` and `gpufs_trace_counter`: a trace, and a word.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RawPlace {
    /// The trace.
    pub trace: RawTrace,
    /// The track, or what [`Span::to_word`] says.
    pub word: u64,
}

/// `gpufs_trace_value`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RawValue {
    /// 0 for a signed number, 1 for an unsigned one, 2 for a real.
    pub kind: u32,
    /// Nothing.
    pub kept: u32,
    /// Its bits.
    pub bits: u64,
}

assert_eq_size!(RawTrace, [u64; 3]);
assert_eq_size!(RawEvent, [u64; 6]);
assert_eq_size!(RawPlace, [u64; 4]);
assert_eq_size!(RawValue, [u64; 2]);

impl RawValue {
    pub(crate) const fn value(self) -> Result<Value, Errno> {
        match self.kind {
            0 => Ok(Value::Signed(self.bits.cast_signed())),
            1 => Ok(Value::Unsigned(self.bits)),
            2 => Ok(Value::Real(f64::from_bits(self.bits))),
            _ => Err(Errno::INVAL),
        }
    }
}

impl RawTrace {
    fn of(trace: Trace) -> Self {
        let (file, sequence, rest, piece) = trace.to_parts();
        Self { file: file.to_handle(), sequence, rest, piece, kept: 0 }
    }
    /// # Errors
    /// `EBADF` for one that is not open.
    ///
    /// # Safety
    /// As [`File::from_handle`].
    pub(crate) unsafe fn get(self, call: Call) -> Result<Trace, Errno> {
        // SAFETY:
        // - this function's contract
        let file = unsafe { File::from_handle_in(self.file, call) }?;
        Ok(Trace::from_parts(file, self.sequence, self.rest, self.piece))
    }
}

/// What a pointer of C's leads to.
///
/// # Errors
/// `EFAULT` for null.
///
/// # Safety
/// Null, or aligned, initialized, and unchanged while the result is used.
pub(crate) unsafe fn place<'a, T>(pointer: *const T) -> Result<&'a T, Errno> {
    // SAFETY:
    // - this function's contract
    unsafe { pointer.as_ref() }.ok_or(Errno::FAULT)
}

/// Fills C's memory with a result.
///
/// # Safety
/// `into` is null or a place for it, which nobody else uses.
pub(crate) unsafe fn fill<T>(into: *mut T, outcome: Result<T, Errno>) -> i64 {
    done(outcome.and_then(|value| {
        if into.is_null() {
            return Err(Errno::FAULT);
        }
        // SAFETY:
        // - not null, and this function's contract
        unsafe { into.write(value) };
        Ok(())
    }))
}

/// A name.
///
/// # Errors
/// `EFAULT` for null, `EINVAL` for one that is too long.
///
/// # Safety
/// As [`arguments::path`], for [`NAME_BYTES`].
unsafe fn name<'a>(string: *const c_char) -> Result<&'a [u8], Errno> {
    // SAFETY:
    // - this function's contract
    let name = unsafe { arguments::bounded(string, NAME_BYTES) }?;
    name.map(CStr::to_bytes).ok_or(Errno::INVAL)
}

/// The values of an event; their number is the event's.
///
/// # Errors
/// `EFAULT` for null where there are some, `EINVAL` for another kind, and for an event that is none.
///
/// # Safety
/// `values` is null or has as many as the event.
pub(crate) unsafe fn values(
    event: &RawEvent,
    values: *const RawValue,
) -> Result<([Value; VALUES_MAX], usize), Errno> {
    let count = event.count as usize;
    let mut all = [Value::Unsigned(0); VALUES_MAX];
    let Some(room) = all.get_mut(..count) else { return Err(Errno::INVAL) };
    if count > 0 && values.is_null() {
        return Err(Errno::FAULT);
    }
    for (at, into) in room.iter_mut().enumerate() {
        // SAFETY:
        // - below the event's number of values, by this function's contract
        let value = unsafe { values.add(at) };
        // SAFETY:
        // - one of those values
        *into = unsafe { *value }.value()?;
    }
    Ok((all, count))
}

/// Opens a trace: 0, or a negated errno.
///
/// # Safety
/// - `tables` is null, or those of a session that is not closed.
/// - `path` is null or a string. `into` is null or a place for a trace.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_trace_open(
    tables: *const SessionTables,
    path: *const c_char,
    into: *mut RawTrace,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or ends with a NUL, by this function's contract
        unsafe { arguments::path(path) }
            .and_then(|path| if into.is_null() { Err(Errno::FAULT) } else { Ok(path) }),
    );
    let (fs, path) = match arguments::counted_with(Call::TraceOpen, checked) {
        (Ok(fs), Ok(path)) => (fs, path),
        (Err(errno), _) | (_, Err(errno)) => return done(Err(errno)),
    };
    // SAFETY:
    // - this function's contract
    unsafe { fill(into, fs.trace(path).map(RawTrace::of)) }
}

/// An event by its name and those of its `count` values: 0, or a negated errno.
///
/// # Safety
/// - `trace` is null or a trace that [`gpufs_raw_trace_open`] filled in. `into` is null or a place for an event.
/// - `event_name` is null or a string; `value_names` is null or has `count` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_trace_event(
    trace: *const RawTrace,
    event_name: *const c_char,
    value_names: *const *const c_char,
    count: c_int,
    into: *mut RawEvent,
) -> i64 {
    let make = || {
        // SAFETY:
        // - this function's contract
        let raw = *unsafe { place(trace) }?;
        // SAFETY:
        // - this function's contract
        let trace = unsafe { raw.get(Call::TraceName) }?;
        // SAFETY:
        // - this function's contract
        let event_name = unsafe { name(event_name) }?;
        let count = usize::try_from(count).map_err(|_| Errno::INVAL)?;
        let mut names = [&b""[..]; VALUES_MAX];
        let mut ids = [0; VALUES_MAX];
        for at in 0..count {
            if value_names.is_null() {
                return Err(Errno::FAULT);
            }
            // SAFETY:
            // - below `count`, as many as there are by this function's contract
            let value_name = unsafe { value_names.add(at) };
            // SAFETY:
            // - one of those
            let value_name = unsafe { *value_name };
            // SAFETY:
            // - this function's contract
            let value_name = unsafe { name(value_name) }?;
            *names.get_mut(at).ok_or(Errno::INVAL)? = value_name;
            *ids.get_mut(at).ok_or(Errno::INVAL)? = gpufs_core::trace::name_id(value_name);
        }
        trace.name_event(event_name, &names[..count])?;
        let id = gpufs_core::trace::name_id(event_name);
        Ok(RawEvent { trace: raw, name: id, count: count as u32, value_names: ids })
    };
    let made = make();
    // SAFETY:
    // - this function's contract
    unsafe { fill(into, made) }
}

/// A counter by its name: 0, or a negated errno.
///
/// # Safety
/// As [`gpufs_raw_trace_event`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_trace_counter(
    trace: *const RawTrace,
    counter_name: *const c_char,
    into: *mut RawPlace,
) -> i64 {
    let make = || {
        // SAFETY:
        // - this function's contract
        let raw = *unsafe { place(trace) }?;
        // SAFETY:
        // - this function's contract
        let trace = unsafe { raw.get(Call::TraceName) }?;
        // SAFETY:
        // - this function's contract
        let counter = trace.name_counter(unsafe { name(counter_name) }?)?;
        Ok(RawPlace { trace: raw, word: counter.track() })
    };
    let made = make();
    // SAFETY:
    // - this function's contract
    unsafe { fill(into, made) }
}

/// Begins a span: 0, or a negated errno.
///
/// # Safety
/// `event` is null or an event that [`gpufs_raw_trace_event`] filled in, `event_values` null or as many values; `into` is null or a place for a span.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_trace_begin(
    event: *const RawEvent,
    event_values: *const RawValue,
    into: *mut RawPlace,
) -> i64 {
    let make = || {
        // SAFETY:
        // - this function's contract
        let event = unsafe { place(event) }?;
        // SAFETY:
        // - this function's contract
        let trace = unsafe { event.trace.get(Call::TraceBegin) }?;
        // SAFETY:
        // - this function's contract
        let (values, count) = unsafe { values(event, event_values) }?;
        let span = trace.begin(event.name, &event.value_names[..count], &values[..count])?;
        Ok(RawPlace { trace: event.trace, word: span.to_word() })
    };
    let made = make();
    // SAFETY:
    // - this function's contract
    unsafe { fill(into, made) }
}

/// Ends a span, once: 0, or a negated errno.
///
/// # Safety
/// `span` is null or one that [`gpufs_raw_trace_begin`] filled in.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_trace_end(span: *mut RawPlace) -> i64 {
    // SAFETY:
    // - this function's contract
    let Some(span) = (unsafe { span.as_mut() }) else { return done(Err(Errno::FAULT)) };
    // What was ended is ended once.
    let word = core::mem::take(&mut span.word);
    // SAFETY:
    // - this function's contract
    let trace = unsafe { span.trace.get(Call::TraceEnd) };
    done(trace.and_then(|trace| Span::from_word(trace, word).end()))
}

/// A moment: 0, or a negated errno.
///
/// # Safety
/// As [`gpufs_raw_trace_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_trace_instant(
    event: *const RawEvent,
    event_values: *const RawValue,
) -> i64 {
    let make = || {
        // SAFETY:
        // - this function's contract
        let event = unsafe { place(event) }?;
        // SAFETY:
        // - this function's contract
        let trace = unsafe { event.trace.get(Call::TraceEvent) }?;
        // SAFETY:
        // - this function's contract
        let (values, count) = unsafe { values(event, event_values) }?;
        trace.instant(event.name, &event.value_names[..count], &values[..count])
    };
    result(make().map(|()| 0_u64))
}

/// A counter's value: 0, or a negated errno.
///
/// # Safety
/// `counter` is null or one that [`gpufs_raw_trace_counter`] filled in, `value` null or a value.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_trace_set(counter: *const RawPlace, value: *const RawValue) -> i64 {
    let make = || {
        // SAFETY:
        // - this function's contract
        let counter = unsafe { place(counter) }?;
        // SAFETY:
        // - this function's contract
        let value = unsafe { place(value) }?.value()?;
        // SAFETY:
        // - this function's contract
        let trace = unsafe { counter.trace.get(Call::TraceEvent) }?;
        Counter::new(trace, counter.word).set(value)
    };
    done(make())
}

/// Reads both clocks again: 0, or a negated errno.
///
/// # Safety
/// As [`gpufs_raw_trace_event`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_trace_join_clocks(trace: *const RawTrace) -> i64 {
    // SAFETY:
    // - this function's contract
    let place = unsafe { place(trace) };
    // SAFETY:
    // - this function's contract
    let trace = place.and_then(|trace| unsafe { trace.get(Call::TraceClocks) });
    done(trace.and_then(Trace::join_clocks))
}

/// Writes what is buffered: 0, or a negated errno.
///
/// # Safety
/// `trace` is null or a trace that [`gpufs_raw_trace_open`] filled in.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_trace_flush(trace: *const RawTrace) -> i64 {
    // SAFETY:
    // - this function's contract
    let trace = unsafe { place(trace) }.and_then(|trace| {
        // SAFETY:
        // - this function's contract
        unsafe { trace.get(Call::TraceFlush) }
    });
    done(trace.and_then(Trace::flush))
}

/// Closes a trace: 0, or a negated errno.
///
/// # Safety
/// `trace` is null or a trace that [`gpufs_raw_trace_open`] filled in.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_trace_close(trace: *const RawTrace) -> i64 {
    // SAFETY:
    // - this function's contract
    let trace = unsafe { place(trace) }.and_then(|trace| {
        // SAFETY:
        // - this function's contract
        unsafe { trace.get(Call::TraceClose) }
    });
    done(trace.and_then(Trace::close))
}
