//! A key-value server: a kernel that stays, takes connections, and answers requests of Redis's protocol from a table in the device's memory.
//!
//! A lane serves one client at a time. The lanes of a warp go round together: each takes what its client has sent, answers what is whole, and sends
//! the replies. All of a warp's receives are one batch, and so are its sends; none waits, so that a client who is silent, slow or gone keeps no
//! other from being served. A warp to which nobody speaks polls its sockets, and costs nothing meanwhile.
//!
//! | file | what |
//! |---|---|
//! | `request.rs` | what came, taken apart |
//! | `commands.rs` | what each command does, and its reply |
//! | `table.rs` | the table |
//! | `connection.rs`, `buffer.rs` | one client |

mod buffer;
mod commands;
mod connection;
mod number;
mod request;
mod table;

use gpufs_core::word::{DeviceWord, DeviceWord64};
use gpufs_device::file::Descriptor;
use gpufs_device::kernel::{Handoff, Shared};
use gpufs_device::socket::{IPPROTO_TCP, POLLIN, POLLOUT, PollFd, SHUT_RDWR, SOCK_NONBLOCK, TCP_NODELAY};
use gpufs_device::warp::{Lanes, clock, nap};
use gpufs_device::{Errno, Fs, calling, kernel, portable};

use self::connection::Connection;
use super::Parts;

pub use self::connection::SPARE_BYTES;
pub use self::table::Table;

portable! {
    /// What the host places for the kernel.
    pub struct Job {
        /// The socket that listens. It does not wait.
        pub listener: Descriptor,
        /// Keys and values.
        pub table: Table,
        /// Memory for each lane: half for what comes, half for what goes. A request and a value fit in a half, less [`SPARE_BYTES`].
        pub buffers: Parts,
        /// 1 when the server is to end.
        pub stopping: DeviceWord,
        /// Connections that were taken.
        pub connections: DeviceWord64,
        /// Requests that were answered.
        pub requests: DeviceWord64,
        /// Why no connection can be taken any more, if that is not because the server ends.
        pub failed: Handoff<Errno>,
    }
}

/// Rounds in which nothing moves before a warp polls.
const IDLE_ROUNDS: u32 = 20;
/// Between two such rounds.
const IDLE_NAP_NS: u32 = 2_000;
/// A busy warp looks for new connections once in so many rounds.
const ROUNDS_OF_AN_ACCEPT: u32 = 8;
/// How long a poll takes at most: then a warp looks whether the server is to end.
const POLL_MS: i32 = 250;
/// How long replies may take to go out when the server ends.
const DRAIN_NS: u64 = 1_000_000_000;
/// The most lanes of a warp.
const WIDTH_MAX: usize = 64;

kernel! {
    /// Serves until the listening socket is shut down, or a client says `SHUTDOWN`. Any grid; a lane that gets no memory serves nobody.
    pub fn serve_clients(fs: Fs, job: Shared<Job>) {
        let job = job.get(fs);
        let lanes = calling!();
        let memory = job.buffers.claim();
        let has_memory = memory.is_some();
        let mut none = [];
        let mut connection = Connection::new(memory.map_or(&mut none[..], |memory| memory.into_slice()));
        let mut idle = 0;
        let mut round = 0_u32;
        let mut stopped_ns = None;
        // Ends: when the server is to end, and all is said or the time is over.
        loop {
            // ORDERING: relaxed: a word that is set once.
            let stopping = lanes.any(job.stopping.peek() != 0);
            if stopping {
                let now = clock();
                let since = *stopped_ns.get_or_insert(now);
                connection.stop();
                if lanes.any(now.saturating_sub(since) > DRAIN_NS) {
                    connection.close(fs);
                }
            }
            let mut moved = serve(fs, job, &mut connection);
            if connection.is_over() {
                connection.close(fs);
            }
            if stopping && !lanes.any(connection.socket().is_some()) {
                break;
            }
            let is_idle = !lanes.any(moved);
            let free = lanes.ballot(has_memory && connection.socket().is_none());
            if !stopping && (is_idle || round.is_multiple_of(ROUNDS_OF_AN_ACCEPT)) && !free.is_empty() {
                moved = lanes.lane() == free.first() && accept(fs, job, &mut connection);
            }
            round = round.wrapping_add(1);
            idle = if is_idle && !lanes.any(moved) { idle + 1 } else { 0 };
            if idle > IDLE_ROUNDS && !stopping {
                wait(fs, job, lanes, &connection, !free.is_empty());
                idle = 0;
            } else if idle > 0 {
                nap(IDLE_NAP_NS);
            }
        }
        job.requests.count(connection.requests());
    }
}

/// One round of a lane; whether something moved.
fn serve(fs: Fs, job: &Job, connection: &mut Connection<'_>) -> bool {
    let mut moved = false;
    if connection.wants_input() {
        moved = connection.receive(fs);
    }
    if connection.socket().is_some() && connection.answer(job) {
        // ORDERING: relaxed: the others look again.
        job.stopping.set(1);
        // Those that wait in a poll wake up.
        let _ = fs.shutdown(job.listener, SHUT_RDWR);
    }
    if connection.has_output() {
        moved |= connection.send(fs);
    }
    moved
}

/// Takes the next connection, if there is one.
fn accept(fs: Fs, job: &Job, connection: &mut Connection<'_>) -> bool {
    match fs.accept4(job.listener, None, SOCK_NONBLOCK) {
        Ok(socket) => {
            // A socket that cannot is slower.
            let _ = fs.setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &1_i32.to_ne_bytes());
            connection.open(socket);
            job.connections.count(1);
            true
        }
        // Nobody is there, or somebody who went again; or all descriptors are in use until somebody goes.
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED | Errno::MFILE | Errno::NFILE) => false,
        // It was shut down.
        Err(Errno::INVAL) => {
            job.stopping.set(1);
            false
        }
        Err(errno) => {
            job.failed.put(errno);
            job.stopping.set(1);
            false
        }
    }
}

/// Waits until a client of the warp has sent something, can take more, or a new one comes. Convergent; called by `lanes`.
fn wait(fs: Fs, job: &Job, lanes: Lanes, connection: &Connection<'_>, takes_more: bool) {
    const NOBODY: u64 = u64::MAX;
    let mut all = [PollFd::default(); WIDTH_MAX + 1];
    let mut count = 0;
    if takes_more {
        all[0] = PollFd { fd: job.listener.0.cast_signed(), events: POLLIN, revents: 0 };
        count = 1;
    }
    let events = if connection.has_output() { POLLIN | POLLOUT } else { POLLIN };
    let mine = connection
        .socket()
        .map_or(NOBODY, |socket| u64::from(socket.0) << 16 | u64::from(events.cast_unsigned()));
    for lane in lanes.mask().iter() {
        let its = lanes.broadcast(mine, lane);
        if its != NOBODY {
            #[expect(clippy::cast_possible_truncation, reason = "a descriptor, and 16 bits of events")]
            let entry = PollFd { fd: (its >> 16) as i32, events: its as u16 as i16, revents: 0 };
            all[count] = entry;
            count += 1;
        }
    }
    if lanes.is_leader() {
        // What is wrong with a socket shows when it is used.
        let _ = fs.poll(&mut all[..count], POLL_MS);
    }
    lanes.sync();
}
