//! Calls that io_uring has no operation for: the host does them, on the service ring (`gpufs_core::protocol::services`). Each call is made by any
//! lanes at once, each for itself; a warp's calls go to the host as one batch. The host's threads for them start with the first such call of a
//! session. A relative path begins at the process's working directory at the time of the call; kernels cannot change it.
//!
//! | file | calls |
//! |---|---|
//! | `path.rs` | `readlink`, `truncate`, `chmod`, `fchmod`, `access`, `faccessat`, `utimensat`, `futimens`, `getcwd`, `chdir`, `fchdir`, `umask` |
//! | `directory.rs` | `opendir`, `readdir`, `rewinddir`, `telldir`, `seekdir`, `closedir` |
//! | `lock.rs` | `flock`, and the record locks of `fcntl` |
//! | `process.rs` | `popen`, `pclose`, `getenv` |
//! | `time.rs` | `clock_gettime`, `time`, `nanosleep` |
//! | `call.rs` | functions of the program |
//!
//! Those of sockets are in [`socket`](crate::socket).
//!
//! What differs from the system's calls:
//!
//! | call | difference |
//! |---|---|
//! | `readdir` | fills the caller's entry, and says whether there was one. Lanes that call together get the next entries in lane order. The first ones are those that were there when the directory was opened |
//! | `flock`, `fcntl` | locks belong to the open file description, also those of `fcntl` (`F_OFD_SETLK`), as all lanes are one process. A lane that waits tries again, after rests of up to 20 ms: waiting is not first come, first served, and there is no `EDEADLK`. The host never waits for a lock, so a lane that waits keeps no other call from being served |
//! | `flock`, `fcntl` on AMD's GPUs | where lanes of a warp run in lockstep, a lane that waits keeps the others of its warp from running, also the one that would unlock: the wait then ends at the session's deadline (`ETIMEDOUT`). There, one lane of a warp locks a file, or each tries with [`LOCK_NB`]. NVIDIA's lanes, from Volta on, and CPU lanes run by themselves |
//! | `getenv` | fills the caller's memory, and returns the value's length. It is the process's environment at the time of the call |
//! | `clock_gettime` | the host's clock, read between the call and its return; a warp's calls are one batch |
//! | `nanosleep` | by the device's clock, at least as long as asked for; no signal ends it, so nothing remains |
//! | `popen` | the session's end of the pipe is closed in every other process |
//! | `pclose` | the wait status, as `waitpid(2)` gives it. A lane that waits tries again, after rests of up to 20 ms |

mod call;
mod directory;
mod lock;
mod path;
mod process;
mod time;

pub use directory::Directory;
pub use gpufs_core::abi::TimeSpec;
pub use gpufs_core::abi::{Dirent, F_RDLCK, F_UNLCK, F_WRLCK, RecordLock};
pub use gpufs_core::service::{Pod, SERVICE_BYTES_MAX, Service, Zeroable, key_of};
pub use lock::{LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, LockCommand};
pub use path::{AT_EACCESS, F_OK, R_OK, UTIME_NOW, UTIME_OMIT, W_OK, X_OK};
pub use time::{CLOCK_BOOTTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_REALTIME};

use gpufs_core::Errno;
use gpufs_core::abi::Sqe;
use gpufs_core::session::SessionTables;

use crate::io::{Rests, ring_of_warp, serve};
use crate::warp::Lanes;

/// [`serve`] of an operation that may have to wait for another party, which the host does not do ([R-SERVE-3]): its lane tries until the result is
/// something else than `EAGAIN`, and between two tries it holds nothing. A lane that does not `wait` gets `EAGAIN`.
///
/// The first try is the warp's, as one batch; each lane that has to wait does so alone, as the lane that would end its wait may be one of the
/// others. Convergent; called by `lanes`.
fn serve_until_done(
    session: &SessionTables,
    lanes: Lanes,
    entry: Option<Sqe>,
    waits: bool,
) -> Result<u32, Errno> {
    let tried = Errno::check(serve(session, lanes, entry));
    let again = waits && tried == Err(Errno::AGAIN);
    let waiting = lanes.ballot(again);
    let Some(entry) = entry.filter(|_| again) else { return tried };
    let lanes = lanes.subset(waiting);
    lanes.grouped(u64::from(lanes.lane()), |alone| {
        let mut rests = Rests::new(session, ring_of_warp(session));
        // Ends: when the other party lets it.
        loop {
            rests.rest(alone, u64::from(entry.opcode))?;
            match Errno::check(serve(session, alone, Some(entry))) {
                Err(Errno::AGAIN) => {}
                done => return done,
            }
        }
    })
}
