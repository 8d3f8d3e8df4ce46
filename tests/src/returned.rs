//! Records whose calls returned, among others that were cut short: what threads that are stopped or unwound leave in a file.
//!
//! A record is `<thread round letters>` and a newline, so that whole records are found among torn ones.

/// Letters of the longest record.
const LETTERS_MAX: usize = 600;
/// Bytes of the longest record, or more.
pub const RECORD_BYTES_MAX: usize = LETTERS_MAX + 32;

/// Letters of a record: `style` 0 has none, 1 always as many, and others have up to `LETTERS_MAX`.
fn letters(thread: u32, round: u32, style: u32) -> usize {
    match style {
        0 => 0,
        1 => 20,
        _ if (thread + round) % 50 == 7 => LETTERS_MAX,
        _ => ((thread * 7 + round * 13) % 90) as usize,
    }
}

/// Writes the record of a thread's round to `into`, and returns its length. It does not allocate: a thread that is stopped for ever must not
/// hold the allocator's lock.
pub fn record(into: &mut [u8; RECORD_BYTES_MAX], thread: u32, round: u32, style: u32) -> usize {
    let mut at = 0;
    let mut put = |byte| {
        into[at] = byte;
        at += 1;
    };
    put(b'<');
    for number in [thread, round] {
        let mut divisor = 1;
        while number / divisor >= 10 {
            divisor *= 10;
        }
        while divisor > 0 {
            put(b'0' + (number / divisor % 10) as u8);
            divisor /= 10;
        }
        put(b' ');
    }
    for _ in 0..letters(thread, round, style) {
        put(b'a' + ((thread + round) % 26) as u8);
    }
    put(b'>');
    put(b'\n');
    at
}

/// Checks that the records of each thread are whole, single and in order, and that those of its first `returned[thread]` rounds are all
/// there. The record of the next round may be missing or torn.
///
/// # Panics
/// If a thread's records are not as described.
pub fn check(text: &[u8], returned: &[u32], style: u32) {
    assert_eq!(check_but_repeated(text, returned, style), 0, "bytes of records that are doubled");
}

/// As [`check`], where records may come again: a call that is cut short between reserving its room and filling it leaves there what the buffer
/// held. The number of bytes in those records.
///
/// # Panics
/// If a thread's records are not as described.
#[must_use]
pub fn check_but_repeated(text: &[u8], returned: &[u32], style: u32) -> usize {
    let mut repeated = 0;
    let mut next = vec![0; returned.len()];
    let mut torn = 0;
    let mut buffer = [0; RECORD_BYTES_MAX];
    for piece in text.split(|&byte| byte == b'<').skip(1) {
        let whole = (|| {
            let mut words =
                piece.split(|&byte| byte == b' ').map(|word| str::from_utf8(word).ok()?.parse().ok());
            let (thread, round): (u32, u32) = (words.next()??, words.next()??);
            let length = record(&mut buffer, thread, round, style);
            piece.starts_with(&buffer[1..length]).then_some((thread as usize, round, length))
        })();
        let Some((thread, round, length)) = whole else {
            torn += piece.len() + 1;
            continue;
        };
        torn += piece.len() + 1 - length;
        if round < next[thread] {
            repeated += length;
            continue;
        }
        assert_eq!(round, next[thread], "thread {thread}: out of order or missing");
        assert!(round <= returned[thread], "thread {thread}: a record that was written before its call");
        next[thread] += 1;
    }
    for (thread, (found, returned)) in next.iter().zip(returned).enumerate() {
        assert!(found >= returned, "thread {thread}: {found} records, but {returned} calls returned");
    }
    let torn_at_most = returned.len() * RECORD_BYTES_MAX;
    let holes = text.iter().filter(|byte| **byte == 0).count();
    assert!(torn.saturating_sub(holes) <= torn_at_most, "{torn} bytes are of no record");
    repeated
}
