//! The sizes that a session gets: those that the program chose, and the others, which follow from them.

use gpufs_core::pieces::PAGE_BYTES;

use super::builder::Builder;

/// What streams have by default for their buffers: one of these each, and 64 for those that write much, of which lines that are read ahead take
/// some on a GPU. With the calls' memory, the journal's and the pieces of traces a default session stays below 64 MiB.
const STREAM_BYTES: usize = 40 << 20;
const STREAM_BUFFER_BYTES: usize = 128 << 10;
const STREAM_BUFFER_BYTES_MIN: usize = 4 << 10;
const STREAM_BUFFER_BYTES_MAX: usize = 1 << 20;
const STREAMS: u32 = 256;
/// Bytes for the long records of all lanes that format one at a time, and the most that one has, but for what keeps its parts together.
const RECORD_BYTES: usize = 4 << 20;
/// The same in a small session.
const SMALL_RECORD_BYTES: usize = 256 << 10;
/// A session is small whose streams have less than so much for their buffers, on a device with memory of its own.
const SMALL_STREAM_BYTES: usize = 8 << 20;
/// The same on CPU lanes, where small sessions had always room for long texts.
const SMALL_STREAM_BYTES_OF_HOST: usize = 256 << 10;
/// Submission entries of a ring: by default, and at most.
const RING_ENTRIES: u32 = 1024;
pub(super) const RING_ENTRIES_MAX: u32 = 32_768;
/// Slots that a ring has beyond those that write-behind may hold ([R-8]).
pub(super) const SLOTS_BESIDE_STREAMS: u32 = 64;
/// What traces get for the pieces of their writers: a page for each of 256 warps. It is what 64 MiB leave.
const PIECE_BYTES: usize = 256 << 10;
/// The most that a program may choose.
pub(super) const PIECE_BYTES_MAX: usize = 1 << 30;
/// In a small session they get so much less than streams.
const PIECE_SHARE: usize = 8;
/// What a GPU gets for the text of lines that are read ahead: with the default buffers, what one stream wants.
const GPU_READ_AHEAD_BYTES: usize = 8 << 20;

/// The sizes that hang on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Submission entries of a ring.
    pub(super) ring_entries: u32,
    /// Bytes of a stream buffer.
    pub(super) stream_buffer_bytes: u32,
    /// Stream buffers, but for those that lines are read ahead into.
    pub(super) stream_buffers: u32,
    /// Streams: at most as many as stream buffers ([R-11]).
    pub(super) streams: u32,
    /// Buffers for the text of lines that are read ahead, each of which has a stream buffer, too.
    pub(super) line_buffers: u32,
    /// What the program chose for pieces of traces.
    pub(super) trace_memory: Option<usize>,
}

impl Plan {
    /// Stream buffers with those that lines are read ahead into, so that streams find as many as without them.
    pub(super) const fn all_stream_buffers(&self) -> u32 {
        self.stream_buffers + self.line_buffers
    }
    /// Pages for pieces of traces: by default fewer in a small session.
    pub(super) fn piece_pages(&self) -> u32 {
        let streams = self.stream_buffers as usize * self.stream_buffer_bytes as usize;
        let bytes = self.trace_memory.unwrap_or(PIECE_BYTES.min(streams / PIECE_SHARE));
        (bytes / PAGE_BYTES as usize) as u32
    }
    /// Bytes for long records: less in a small session.
    pub(super) const fn record_bytes(&self, own_memory: bool) -> usize {
        let streams = self.stream_buffers as usize * self.stream_buffer_bytes as usize;
        let small = if own_memory { SMALL_STREAM_BYTES } else { SMALL_STREAM_BYTES_OF_HOST };
        if streams < small { SMALL_RECORD_BYTES } else { RECORD_BYTES }
    }
}

/// Streams that `buffers` stream buffers suffice for with some to spare.
fn streams_for(buffers: u32) -> u32 {
    (buffers - buffers / 5).max(buffers.min(8))
}

impl Builder {
    /// The sizes, for a device that has memory of its own or not. They may break a rule that [`Builder::check`] knows.
    pub(super) fn plan(&self, own_memory: bool) -> Plan {
        let mut bytes = self.stream_bytes.unwrap_or(STREAM_BYTES);
        let mut each = self.stream_buffer_bytes.map_or(STREAM_BUFFER_BYTES, |bytes| bytes as usize).max(1);
        // Each may have a write in flight.
        let most =
            self.ring_entries.unwrap_or(RING_ENTRIES_MAX).saturating_sub(SLOTS_BESIDE_STREAMS) as usize;
        if let Some(streams) = self.streams {
            let streams = streams as usize;
            let wanted =
                streams.saturating_add((streams / 2).min(8 * self.blocks_per_stream.min(16) as usize));
            while self.stream_buffer_bytes.is_none()
                && bytes / each < wanted
                && each > STREAM_BUFFER_BYTES_MIN
            {
                each /= 2;
            }
            if self.stream_bytes.is_none() {
                bytes = bytes.max(wanted.saturating_mul(each));
            }
        } else if self.ring_entries.is_none() && self.stream_buffer_bytes.is_none() {
            while bytes / each > most && each < STREAM_BUFFER_BYTES_MAX {
                each *= 2;
            }
        }
        let mut buffers = bytes / each;
        if self.ring_entries.is_none() || self.stream_bytes.is_none() {
            buffers = buffers.min(most);
        }
        let mut buffers = u32::try_from(buffers).unwrap_or(u32::MAX);
        let default = if own_memory { GPU_READ_AHEAD_BYTES } else { 0 };
        let slots = self.ring_entries.unwrap_or(RING_ENTRIES_MAX);
        let line_buffers = u32::try_from(self.read_ahead.unwrap_or(default) / (2 * each)).unwrap_or(u32::MAX);
        if self.stream_bytes.is_none() && self.streams.is_none() {
            // What lines are read ahead into is spare for all.
            buffers -= line_buffers.min(buffers / 10);
        }
        let line_buffers =
            line_buffers.min(slots.saturating_sub(SLOTS_BESIDE_STREAMS).saturating_sub(buffers));
        let streams = match self.streams {
            Some(streams) if streams <= buffers => streams,
            None if self.stream_bytes.is_none() => {
                STREAMS.min(streams_for(buffers + line_buffers)).min(buffers)
            }
            streams => streams.unwrap_or(STREAMS).min(streams_for(buffers)),
        };
        let ring_entries = self.ring_entries.unwrap_or_else(|| {
            let slots = (SLOTS_BESIDE_STREAMS + line_buffers).saturating_add(buffers).min(RING_ENTRIES_MAX);
            slots.next_power_of_two().max(RING_ENTRIES)
        });
        Plan {
            ring_entries,
            stream_buffer_bytes: u32::try_from(each).unwrap_or(u32::MAX),
            stream_buffers: buffers,
            streams,
            line_buffers,
            trace_memory: self.trace_memory,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Plan;
    use crate::Session;

    const DEFAULT: Plan = Plan {
        ring_entries: 1024,
        stream_buffer_bytes: 128 << 10,
        stream_buffers: 320,
        streams: 256,
        line_buffers: 0,
        trace_memory: None,
    };

    #[test]
    fn what_was_not_chosen_follows_from_what_was() {
        let builder = Session::builder;
        assert_eq!(builder().plan(false), DEFAULT);
        assert_eq!(builder().plan(true), Plan { stream_buffers: 288, line_buffers: 32, ..DEFAULT });
        for (builder, plan) in [
            // Much memory needs larger rings, and at some point larger buffers.
            (builder().buffers(512 << 20), Plan { stream_buffers: 2048, ring_entries: 4096, ..DEFAULT }),
            (
                builder().buffers(16 << 30),
                Plan {
                    stream_buffers: 16_384,
                    stream_buffer_bytes: 512 << 10,
                    ring_entries: 32_768,
                    ..DEFAULT
                },
            ),
            // Little memory is for fewer streams, unless their number was chosen.
            (builder().buffers(48 << 20), Plan { stream_buffers: 192, streams: 154, ..DEFAULT }),
            (
                builder().buffers(48 << 20).streams(256),
                Plan { stream_buffers: 384, stream_buffer_bytes: 64 << 10, ..DEFAULT },
            ),
            (
                builder().streams(4096),
                Plan {
                    streams: 4096,
                    stream_buffers: 5120,
                    stream_buffer_bytes: 8 << 10,
                    ring_entries: 8192,
                    ..DEFAULT
                },
            ),
            (
                builder().streams(1000).stream_buffer(128 << 10),
                Plan { streams: 1000, stream_buffers: 1128, ring_entries: 2048, ..DEFAULT },
            ),
            // Small rings serve few buffers.
            (
                builder().ring_entries(256),
                Plan { ring_entries: 256, stream_buffers: 192, streams: 154, ..DEFAULT },
            ),
            // Everything chosen, and too little.
            (
                builder().buffers(128 << 10).stream_buffer(4096).streams(32),
                Plan { stream_buffers: 16, streams: 13, stream_buffer_bytes: 4096, ..DEFAULT },
            ),
            (
                builder().streams(u32::MAX),
                Plan {
                    stream_buffers: 32_704,
                    streams: 26_164,
                    stream_buffer_bytes: 4096,
                    ring_entries: 32_768,
                    ..DEFAULT
                },
            ),
        ] {
            assert_eq!(builder.plan(false), plan, "{builder:?}");
        }
    }
}
