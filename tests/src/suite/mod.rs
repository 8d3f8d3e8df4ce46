//! One suite for every device: each case drives sessions through kernels of `tests/kernels`, on CPU lanes or on a GPU.
//!
//! `cargo test -p gpufs-tests --test suite` runs every case on CPU lanes, each as a test of its own; the program `suite` runs them on
//! either device, in child processes. A case panics where something is wrong.

pub mod cases;
pub mod harness;
pub mod printing;

use std::process::Command;
use std::sync::Arc;

use gpufs_host::session::OpenError;
use gpufs_host::{Builder, CpuOptions};

use harness::Harness;

/// Where kernels run.
#[derive(Clone, Debug)]
pub enum Device {
    /// On CPU lanes.
    Cpu(CpuOptions),
    /// On an NVIDIA GPU.
    Cuda {
        /// Its number.
        ordinal: u32,
        /// PTX of `tests/kernels`.
        program: Arc<[u8]>,
    },
}

/// What a case is run with.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The device.
    pub device: Device,
    /// How much more than usual to do.
    pub scale: u32,
    /// The program `suite` and how to run it on the same device.
    pub program: Vec<String>,
}

/// How a case ended that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// It holds.
    Passed,
    /// It was not run, and why.
    Skipped(String),
}

/// What a case needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(non_camel_case_types, reason = "as written in the table of cases")]
pub enum Needs {
    /// Any device.
    any,
    /// CPU lanes: what it tests is theirs.
    cpu,
    /// A GPU: its size, or what it tests, is a GPU's.
    gpu,
    /// Any device, and a process of its own, whose limits, user or signals it changes, or whose GPU context it ends.
    alone,
    /// A GPU, and a process of its own.
    gpu_alone,
}

/// A case.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// `group::name`.
    pub name: &'static str,
    /// What it needs.
    pub needs: Needs,
    /// It.
    pub run: fn(&Bench) -> Outcome,
}

impl Case {
    /// Its group.
    #[must_use]
    pub fn group(&self) -> &'static str {
        self.name.split("::").next().unwrap_or_default()
    }
    /// Whether it must have a process of its own.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        matches!(self.needs, Needs::alone | Needs::gpu_alone)
    }
    /// Runs it, or says why not here.
    pub fn try_on(&self, bench: &Bench) -> Outcome {
        match self.needs {
            Needs::cpu if bench.is_gpu() => Outcome::Skipped("what it tests belongs to CPU lanes".to_owned()),
            Needs::gpu | Needs::gpu_alone if !bench.is_gpu() => {
                Outcome::Skipped("there is no GPU: it runs with --device cuda".to_owned())
            }
            _ => (self.run)(bench),
        }
    }
}

impl Bench {
    /// CPU lanes, as they are by default. `program` is the path of the program `suite`.
    #[must_use]
    pub fn cpu(program: &str) -> Self {
        Self { device: Device::Cpu(CpuOptions::default()), scale: 1, program: vec![program.to_owned()] }
    }
    /// Whether kernels run on a GPU.
    #[must_use]
    pub fn is_gpu(&self) -> bool {
        matches!(self.device, Device::Cuda { .. })
    }
    /// An amount: as given on CPU lanes, `times` as much on a GPU, and as often as the scale says.
    #[must_use]
    pub fn sized(&self, amount: u32, times: u32) -> u32 {
        amount * self.scale * if self.is_gpu() { times } else { 1 }
    }
    /// Opens a session.
    ///
    /// # Errors
    /// The session's.
    pub fn try_open(&self, builder: Builder) -> Result<Harness, OpenError> {
        Harness::open(&self.device, builder)
    }
    /// Opens a session.
    ///
    /// # Panics
    /// If it cannot be opened.
    #[must_use]
    pub fn open(&self, builder: Builder) -> Harness {
        self.try_open(builder).unwrap_or_else(|error| panic!("{error}"))
    }
    /// The same bench, with CPU lanes of these options. A GPU is as it is.
    #[must_use]
    pub fn with(&self, options: CpuOptions) -> Self {
        match &self.device {
            Device::Cpu(_) => Self { device: Device::Cpu(options), ..self.clone() },
            Device::Cuda { .. } => self.clone(),
        }
    }
    /// The program `suite`, to run something of [`cases::INNER`] on the same device.
    #[must_use]
    pub fn inner(&self, name: &str) -> Command {
        let mut command = Command::new(&self.program[0]);
        command.args(&self.program[1..]).args(["--inner", name]);
        command
    }
}

/// Calls a macro with the table of cases: `group { name needs, … }`.
#[macro_export]
macro_rules! suite_cases {
    ($callback:ident) => {
        $callback! {
            printing {
                ten_thousand_lanes any,
                ten_thousand_lanes_in_wide_warps cpu,
                ten_thousand_lanes_in_warps_of_one cpu,
                ten_thousand_lanes_through_small_blocks any,
                tiny_blocks any,
                line_buffered_and_unbuffered any,
                records_longer_than_blocks any,
                append_mode any,
                to_a_pipe any,
                single_bytes_among_records any,
                under_many_schedules cpu,
                a_call_that_starts_later_comes_later any,
                a_serial_stream_over_several_rings any,
                several_streams_rings_and_launches any,
                lanes_that_part any,
                opening_and_closing_while_others_print any,
            }
            sessions {
                every_mode_and_memory any,
                a_kernel_closes_what_the_host_registered any,
                placed_values any,
                a_value_of_another_session alone,
                statistics_add_up any,
                a_sleeping_ring_is_woken any,
                any_number_of_rings any,
                dropping_loses_nothing any,
                a_launch_runs_by_itself any,
                synchronize_reports_the_first_error_and_tries_again any,
                kernels_and_program_share_standard_output any,
                unflushed_output_of_an_early_return any,
                several_sessions any,
            }
            sharing {
                lanes_share_a_stream any,
                reads_share_few_buffers any,
                csv_files_by_a_crate_of_others any,
            }
            asynchronous {
                operations_in_flight any,
                chains_in_order any,
                reads_of_an_empty_pipe_end any,
            }
            channels {
                a_kernel_that_stays any,
            }
            differential {
                streams_like_the_c_librarys any,
                descriptors_like_the_systems any,
                snprintf_like_the_c_librarys any,
                flushing_input any,
            }
            faults {
                a_full_device_is_reported_at_every_flush any,
                a_file_gets_its_first_block_too any,
                a_full_disk_keeps_what_was_accepted alone,
                a_full_disk_under_many_lanes alone,
                errors_reach_the_lanes_that_asked any,
                a_broken_pipe_is_an_error_and_no_signal alone,
                a_file_that_shrinks_under_its_reader any,
                a_directory_without_permission alone,
                tables_run_out any,
                the_process_runs_out_of_descriptors alone,
                a_file_grows_past_the_limit alone,
                closed_is_closed any,
                paths_that_lead_nowhere any,
                names_that_are_taken any,
                descriptors_that_are_closed any,
                calls_without_permission alone,
                a_full_disk_under_vectors_formats_and_names alone,
                a_wait_past_the_deadline_says_where alone,
                a_stream_to_a_pipe_that_nobody_reads any,
            }
            views {
                programs_on_few_frames any,
                scans_of_a_larger_file any,
                scans_of_a_whole_file any,
                programs_on_a_whole_file any,
            }
            sizes {
                full_occupancy gpu_alone,
                several_launches_at_once gpu_alone,
                two_minutes_with_pauses gpu_alone,
                ten_minutes_at_one_percent gpu_alone,
            }
        }
    };
}

macro_rules! table {
    ($($group:ident { $($name:ident $needs:ident,)* })*) => {
        /// All cases.
        pub const CASES: &[Case] = &[$($(Case {
            name: concat!(stringify!($group), "::", stringify!($name)),
            needs: Needs::$needs,
            run: cases::$group::$name,
        },)*)*];
    };
}
suite_cases!(table);

/// Whole-stack tests of the project that are not cases, since they are about CPU lanes: by name, and why.
pub const CPU_ONLY: &[(&str, &str)] = &[
    ("lanes::builder_errors_name_what_is_wrong", "what the builder and CPU lanes refuse"),
    ("lanes::a_lane_panics_between_calls", "CPU lanes survive a panic; a GPU's context does not"),
    ("lanes::a_lane_panics_in_the_middle_of_a_call", "CPU lanes survive a panic; a GPU's context does not"),
    ("lanes::a_panic_flushes_as_well", "CPU lanes survive a panic; a GPU's context does not"),
    (
        "panics::others_go_on_when_a_lane_panics_at_any_warp_operation",
        "CPU lanes survive a panic; a GPU's context does not",
    ),
    ("lanes::handles_outlive_their_session", "calls without a session, on a thread of the host"),
    ("system_calls::no_system_calls_while_kernels_run", "strace sees CPU lanes' own threads"),
    ("snprintf_differential::snprintf_equals_the_systems", "millions of cases, without a session"),
];
