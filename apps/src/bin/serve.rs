//! `serve`: a key-value server whose requests are answered by a running kernel, in Redis's protocol.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use clap::builder::TypedValueParser;
use gpufs_apps::cli::values::{from_to, number, text};
use gpufs_apps::cli::{self, Defaults, Failure, Options, Program};
use gpufs_apps::kernels::Parts;
use gpufs_apps::kernels::serve::{Job, PLACE_BYTES, SCRATCH_BYTES, SPARE_BYTES, Table, serve_clients};
use gpufs_core::word::{DeviceWord, DeviceWord64};
use gpufs_device::kernel::Handoff;
use gpufs_host::{Grid, Session};

const PROGRAM: Program = Program { name: "serve", needs: "", trouble: 1 };
const DEFAULTS: Defaults = Defaults::new(Grid { blocks: 1, threads: 1 }, Grid { blocks: 128, threads: 32 });

/// How often the host looks whether the kernel has ended.
const LOOK: Duration = Duration::from_millis(50);
/// How long the system's threads look for operations when nothing happens. They wake when a client speaks.
const IDLE: Duration = Duration::from_millis(100);
/// How long a warp naps to which nothing happens, at least and at most, in nanoseconds; and where its thread enters the ring, so that whatever
/// completes ends the nap.
const NAP_NS: (u64, u64) = (1_000, 5_000_000);
const NAP_NS_ENTERED: (u64, u64) = (200_000, 10_000_000);
/// Clients by default, on CPU lanes and on a GPU; and the most.
const CLIENTS: (u32, u32) = (256, 1024);
const CLIENTS_MAX: u32 = 16_384;
/// Rings by default: each takes a core of the host's while there are requests, and one serves as many of them as `redis-server` does with a core.
const RINGS: u32 = 1;
/// Bytes that the system takes or gives at a time, at most.
const WIRE_BYTES_MAX: usize = 16 << 10;
/// Bytes between the memory of one client and that of the next: of the same few bytes of all of them, which are used most, no two would be in a cache
/// where they lie as far apart as the cache's ways.
const APART: usize = 320;
/// A shard of the table has room for some values of the largest size.
const VALUES_OF_A_SHARD: usize = 16;

/// Serve keys and values from a running kernel to clients of Redis's protocol (RESP2) over TCP
#[derive(Debug, Parser)]
#[command(after_help = MORE)]
struct Task {
    /// Where to listen; port 0: any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6379", value_parser = address())]
    bind: SocketAddr,
    /// Clients at a time [default: 256 on CPU lanes, 1024 on a GPU]
    #[arg(long, value_name = "N", value_parser = from_to::<u32>(1, CLIENTS_MAX.into(), ""))]
    clients: Option<u32>,
    /// For keys and values
    #[arg(long, value_name = "MiB", default_value_t = 64, value_parser = number::<usize>())]
    memory: usize,
    /// For what a client sends, and again for what it gets; a value has 1 KiB less at most
    #[arg(long, value_name = "KiB", default_value_t = 64, value_parser = from_to::<usize>(4, 1 << 20, "KiB"))]
    buffer: usize,
    #[command(flatten)]
    options: Options,
}

const MORE: &str = "\
Commands: PING GET SET MSET MGET DEL EXISTS INCR DBSIZE FLUSHALL CONFIG GET COMMAND QUIT SHUTDOWN.

Each lane serves some clients; where there are more than N, others wait until one leaves. Keys and
values are in the device's memory alone. It ends on SIGINT, SIGTERM and SHUTDOWN, when the replies have
gone out. One ring serves all, and takes a core of the host's; --rings 2 or 4 serve more requests a
second, with as many cores.";

fn address() -> impl TypedValueParser<Value = SocketAddr> {
    text(|text| text.parse().map_err(|_| "no address; say 127.0.0.1:6379".to_owned()))
}

fn main() -> ExitCode {
    // Before there is any other thread, which would get them.
    block_signals();
    PROGRAM.main(|task| serve(&task))
}

impl Task {
    /// Bytes for keys and values, and of a client's buffer.
    ///
    /// # Errors
    /// The memory is too small for the buffers, or too large.
    fn sizes(&self) -> Result<(usize, usize), Failure> {
        let Self { memory, buffer, .. } = *self;
        let least = (2 * VALUES_OF_A_SHARD * buffer / 1024).max(1);
        if memory < least || memory > 1 << 20 {
            return Err(format!("--memory {memory}: from {least} to 1048576 MiB with such a --buffer").into());
        }
        Ok((memory << 20, buffer << 10))
    }
}

fn serve(task: &Task) -> Result<ExitCode, Failure> {
    let Task { options, bind, clients, .. } = task;
    let (memory, buffer) = task.sizes()?;
    let listener =
        TcpListener::bind(bind).map_err(|error| format!("--bind {bind}: {}", cli::reason(&error)))?;
    listener.set_nonblocking(true)?;
    send_at_once(&listener);
    let address = listener.local_addr()?;
    let listening = listener.as_raw_fd();
    let wanted = |plan: &cli::Plan| clients.unwrap_or(if plan.is_gpu { CLIENTS.1 } else { CLIENTS.0 });
    // A descriptor for each client, the listening socket, and what the process has.
    let (mut session, plan) = options.open(&DEFAULTS, |plan| {
        let clients = wanted(plan);
        let _ = cli::allow_files(clients.saturating_add(64));
        let rings = options.rings.unwrap_or(RINGS).clamp(1, plan.warps().max(1));
        let entries = entries_of_a_ring(clients.div_ceil(rings));
        Session::builder().files(clients + 16).idle(IDLE).rings(rings).ring_entries(entries)
    })?;
    let clients = wanted(&plan);
    let socket = session.register_file(OwnedFd::from(listener))?;
    let job = prepare(&mut session, &plan, socket, clients, memory, buffer)?;
    // One thread does everything, as in other servers.
    let (nap_ns_min, nap_ns_max) = if session.enter_from_lanes()? { NAP_NS_ENTERED } else { NAP_NS };
    let job = session.place(Job { nap_ns_min, nap_ns_max, ..job })?;
    let started = Instant::now();
    session.start::<serve_clients::Entry>(plan.grid, serve_clients::Arguments { job: job.handle() })?;
    println!("listening on {address}, for {clients} clients at a time");
    let mut asked = false;
    // Ends with the kernel.
    while !session.is_finished() {
        match signal_within(LOOK) {
            Some(_) if asked => return Ok(ExitCode::from(1)),
            Some(_) => {
                asked = true;
                stop_listening(listening);
            }
            None => {}
        }
    }
    session.synchronize()?;
    let ran = started.elapsed();
    options.report(&session, &plan, ran);
    let job = session.fetch(&job)?;
    println!("{} requests of {} connections", job.requests.peek(), job.connections.peek());
    match job.failed.get() {
        Some(errno) => Err(format!("accept: {}", errno.text()).into()),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Replies go out as they are sent, on every connection that this socket takes. One that cannot is slower.
#[expect(unsafe_code, reason = "an option of a socket")]
fn send_at_once(listener: &TcpListener) {
    let on = 1_i32;
    let length = libc::socklen_t::try_from(size_of_val(&on)).unwrap_or(0);
    // SAFETY:
    // - the option is a number of that length, borrowed for the call
    unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NODELAY,
            (&raw const on).cast(),
            length,
        )
    };
}

/// Entries of a ring that serves so many clients: a receive and a send of each, as many again, of which half are kept for others than those that
/// wait for a client, and what a session has by itself.
fn entries_of_a_ring(clients: u32) -> u32 {
    (4 * (clients + 16) + 512).next_power_of_two().clamp(1024, 32_768)
}

/// Memory for the table, the places, and their buffers.
#[expect(unsafe_code, reason = "memory that the kernel alone uses")]
fn prepare(
    session: &mut Session,
    plan: &cli::Plan,
    listener: gpufs_device::file::Descriptor,
    clients: u32,
    memory: usize,
    buffer: usize,
) -> Result<Job, Failure> {
    let table = session.device_buffer(memory)?.address();
    // SAFETY:
    // - memory of the session's, which is zeroed and given to nothing else, and lives as long as its kernels
    let table = unsafe { Table::new(table, memory, VALUES_OF_A_SHARD * (buffer - SPARE_BYTES)) };
    let places_of_a_lane = clients.div_ceil(plan.all_lanes());
    let part = places_of_a_lane as usize * PLACE_BYTES;
    let total = part * plan.all_lanes() as usize;
    let places = session.device_buffer(total)?.address();
    // SAFETY:
    // - as above
    let places = unsafe { Parts::new(places, total, part) };
    let wire = buffer.min(WIRE_BYTES_MAX);
    Ok(Job {
        listener,
        table,
        places,
        buffers: session.device_buffer((2 * buffer + APART) * clients as usize)?.address(),
        buffer_bytes: 2 * buffer as u64,
        buffer_apart: (2 * buffer + APART) as u64,
        wire: session.register_buffer((2 * wire + APART) * clients as usize)?.as_ptr() as u64,
        wire_bytes: 2 * wire as u64,
        wire_apart: (2 * wire + APART) as u64,
        scratch: session.device_buffer(SCRATCH_BYTES * plan.warps() as usize)?.address(),
        clients,
        places_of_a_lane,
        nap_ns_min: NAP_NS.0,
        nap_ns_max: NAP_NS.1,
        warps: plan.warps(),
        next_warp: DeviceWord::new(0),
        door: DeviceWord::new(0),
        open: DeviceWord::new(0),
        stopping: DeviceWord::new(0),
        connections: DeviceWord64::new(0),
        requests: DeviceWord64::new(0),
        failed: Handoff::default(),
    })
}

/// The signals that end the server.
#[expect(unsafe_code, reason = "the system's sets of signals")]
fn signals() -> libc::sigset_t {
    // SAFETY:
    // - all-zero is a valid `sigset_t`
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY:
        // - the set is borrowed for the call
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    set
}

#[expect(unsafe_code, reason = "the system's sets of signals")]
fn block_signals() {
    let set = signals();
    // SAFETY:
    // - the set is borrowed for the call, and no old mask is asked for
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
}

/// Waits for a signal for so long.
#[expect(unsafe_code, reason = "the system's sets of signals")]
fn signal_within(time: Duration) -> Option<i32> {
    let set = signals();
    let time = libc::timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
    // SAFETY:
    // - set and time are borrowed for the call, and no more is asked of the signal
    let signal = unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const time) };
    (signal > 0).then_some(signal)
}

/// Ends the listening: the kernel sees it, and ends when its replies have gone out.
#[expect(unsafe_code, reason = "a descriptor that the session has")]
fn stop_listening(socket: i32) {
    // SAFETY:
    // - the call takes numbers; the session keeps the descriptor until it is closed
    unsafe { libc::shutdown(socket, libc::SHUT_RDWR) };
}
