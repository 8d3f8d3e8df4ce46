//! Every choice of a session at its extremes: it opens and works, or an error names the choice, the value and the range.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use gpufs_host::ring::Mode;
use gpufs_host::{Builder, CpuOptions, Grid, Session};

/// Opens and works, or an error that names `option` and `value`.
fn holds(option: &str, value: &str, builder: Builder, options: CpuOptions) {
    let opened = catch_unwind(AssertUnwindSafe(|| builder.mode(Mode::Threads).cpu_with(options)));
    match opened.unwrap_or_else(|_| panic!("{option} = {value} panics")) {
        Ok(mut session) => {
            let grid = Grid { blocks: 1, threads: 1 };
            session
                .run(grid, |fs| fs.nop().unwrap())
                .unwrap_or_else(|error| panic!("{option} = {value} opens, and then: {error}"));
        }
        Err(error) => {
            let said = error.to_string();
            println!("{option} = {value}: {said}");
            let named = said.contains(option) || option == "stream_buffer" && said.contains("buffers");
            assert!(named, "{option} = {value} is not named: {said}");
            assert!(
                option == "buffers" || said.contains(value),
                "{option} = {value}: not that value: {said}"
            );
            let ranged = ["from", "is not 1, 2", "less than", "raise it", "or more"];
            assert!(ranged.iter().any(|word| said.contains(word)), "{option} = {value}: no range: {said}");
        }
    }
}

#[test]
fn each_choice_at_its_extremes() {
    let base = || Session::builder().rings(1);
    let lanes = CpuOptions::default;
    for value in [0, 1, 2, 3, 63, 1 << 16, 1 << 20, (1 << 20) + 1, 1 << 31, u32::MAX] {
        let text = value.to_string();
        if value > 4 {
            holds("rings", &text, base().rings(value), lanes());
        }
        holds("rings", "0", base().rings(0), lanes());
        holds("ring_entries", &text, base().ring_entries(value), lanes());
        holds("stream_buffer", &text, base().stream_buffer(value), lanes());
        holds("blocks_per_stream", &text, base().blocks_per_stream(value), lanes());
        holds("files", &text, base().files(value), lanes());
        holds("streams", &text, base().streams(value), lanes());
        holds("registered_buffers", &text, base().registered_buffers(value), lanes());
        holds("width", &text, base(), CpuOptions { width: value, ..lanes() });
        holds("gpu_registers", &text, base().gpu_registers(value), lanes());
    }
    for value in [0, 1, 4095, 65_536, (16 << 30) + 1, (256 << 30) + 2, usize::MAX / 2 + 1, usize::MAX] {
        let text = value.to_string();
        if !(1 << 30..=256 << 30).contains(&value) {
            holds("buffers", &text, base().buffers(value), lanes());
        }
        holds("assembly", &text, base().assembly(value), lanes());
        holds("read_ahead", &text, base().read_ahead(value), lanes());
        holds("trace_memory", &text, base().trace_memory(value), lanes());
        holds("threads", &text, base(), CpuOptions { threads: value, ..lanes() });
        holds("stack_bytes", &text, base(), CpuOptions { stack_bytes: value, ..lanes() });
        holds("resident_warps", &text, base(), CpuOptions { resident_warps: value, ..lanes() });
    }
    for value in [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(9), Duration::MAX] {
        let text = format!("{value:?}");
        holds("deadline", &text, base().deadline(value), lanes());
        holds("idle", &text, base().idle(value), lanes());
    }
}
