//! This project's side: the script of a sequence, for whatever device, and what came of it.

use std::ffi::CString;

use gpufs_device::stdio::Buffering;

use super::{Call, Printf, shows_content, string};
use crate::differential::places::{Kind, NAMES, Place};
use crate::differential::{Outcome, Step};
use crate::random::text;
use crate::suite::harness::{Answer, Do, Value};

/// The calls of a sequence, and which of them answer a step and its look at the file's content.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) calls: Vec<Do>,
    places: Vec<(usize, Option<usize>)>,
}

/// The calls that make the steps, on entry `on`.
pub(super) fn plan(place: &Place, steps: &[Step<Call>], on: u32) -> Plan {
    let mut plan = Plan { calls: Vec::new(), places: Vec::new() };
    let mut path = None;
    let mut buffering = Buffering::Full;
    for Step { call, expected, .. } in steps {
        let old = path.clone();
        if let (Call::Open { name, .. } | Call::OpenBy { name, .. }, 0) = (call, expected.value) {
            buffering = Buffering::Full;
            let (name, kind) = NAMES[*name];
            path = (kind == Kind::File).then(|| place.c_path(name));
        }
        if let Call::Setvbuf(chosen, _) = call {
            buffering = *chosen;
        }
        if let Call::Reopen { name, .. } = call {
            buffering = Buffering::Full;
            path = match name {
                _ if expected.value != 0 => None,
                Some(name) => (NAMES[*name].1 == Kind::File).then(|| place.c_path(NAMES[*name].0)),
                None => path,
            };
        }
        plan.calls.push(doing(place, call, expected, on, buffering));
        let at = plan.calls.len() - 1;
        let shown = if *call == Call::Close {
            path.take()
        } else if matches!(call, Call::Reopen { .. }) {
            old
        } else if shows_content(call, buffering) {
            path.clone()
        } else {
            None
        };
        let looks = shown.is_some();
        plan.calls.extend(shown.map(Do::Look));
        plan.places.push((at, looks.then_some(at + 1)));
    }
    // After a difference something may be open.
    plan.calls.push(Do::Abandon(on));
    plan
}

fn doing(place: &Place, call: &Call, expected: &Outcome, on: u32, buffering: Buffering) -> Do {
    let mode = |mode: &String| CString::new(mode.as_str()).expect("no NUL");
    match call {
        Call::Open { name, mode: letters } => Do::Fopen(on, place.c_path(NAMES[*name].0), mode(letters)),
        Call::Close => Do::Fclose(on),
        Call::Read { bytes } => Do::Fread(on, *bytes),
        Call::Write { salt, bytes } => Do::Fwrite(on, text(*salt, *bytes)),
        Call::Getc => Do::Fgetc(on),
        Call::Putc(byte) => Do::Fputc(on, *byte),
        Call::Gets { room } => Do::Fgets(on, *room),
        Call::Puts { salt, bytes } => Do::Fputs(on, string(*salt, *bytes)),
        Call::Ungetc(byte) => Do::Ungetc(on, *byte),
        Call::Scanf(format) => Do::Fscanf(on, *format),
        Call::Printf { kind, number } => {
            let number = Value::Integer(i64::from(*number));
            match kind {
                Printf::Number => Do::Fprintf(on, c"%d", vec![number]),
                Printf::Line => Do::Fprintf(on, c"lane %08x said %s\n", vec![number, Value::Text(c"this")]),
                Printf::Long => Do::Fprintf(on, c"%400d\n%-20d|", vec![number, number]),
            }
        }
        Call::Seek(offset, whence) => Do::Fseek(on, *offset, *whence),
        Call::Tell => Do::Ftell(on),
        Call::Rewind => Do::Rewind(on),
        Call::Flush => Do::Fflush(on),
        Call::Setvbuf(buffering, bytes) => Do::Setvbuf(on, *buffering, *bytes),
        Call::SetvbufHere(bytes) => Do::Setvbuf(on, buffering, *bytes),
        Call::Clearerr => Do::Clearerr(on),
        Call::Getdelim { delimiter, spare } => {
            // The line, the byte that is looked for behind it, its NUL, and what is to spare.
            let length = usize::try_from(expected.value).unwrap_or(0);
            Do::Getdelim(on, *delimiter, length + 2 + spare)
        }
        Call::Lock => Do::Flockfile(on),
        Call::TryLock => Do::Ftrylockfile(on),
        Call::Unlock => Do::Funlockfile(on),
        Call::Where => Do::Where(on),
        Call::OpenBy { name, flags, mode: letters } => {
            Do::Fdopen(on, place.c_path(NAMES[*name].0), flags.cast_unsigned(), mode(letters))
        }
        Call::Reopen { name, mode: letters } => {
            Do::Freopen(on, name.map(|name| place.c_path(NAMES[name].0)), mode(letters))
        }
    }
}

/// What came of a step.
pub(super) fn outcome(plan: &Plan, step: usize, answers: &[Answer]) -> Outcome {
    let (at, look) = plan.places[step];
    let answer = &answers[at];
    Outcome {
        value: answer.value,
        errno: answer.errno,
        bytes: answer.bytes.clone(),
        flags: (answer.end, answer.error),
        content: look.and_then(|look| {
            let seen = &answers[look];
            usize::try_from(seen.value).ok().map(|length| (length, seen.hash))
        }),
    }
}
