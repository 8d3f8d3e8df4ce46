//! Formatting: `printf` and its relatives (stage 1).

mod sink;

pub use sink::{CountSink, Sink, SinkWriter, SliceSink, WindowSink};
