//! The words that several parties access concurrently, and the only atomics of device code.
//!
//! Two kinds of word, after what the hardware allows (no read-modify-write crosses PCIe):
//!
//! | type | lives in | touched by | verbs |
//! |---|---|---|---|
//! | [`SharedWord`], [`SharedWord64`] | host memory, shared with the kernel or the host | device, kernel, host | `peek observe set publish` |
//! | [`DeviceWord`], [`DeviceWord64`] | device memory | lanes of any warp; the host while no kernel runs | the same, and read-modify-write |
//!
//! | verb | order | scope of a [`SharedWord`] | scope of a device word |
//! |---|---|---|---|
//! | `peek`, `set` | relaxed | system | device |
//! | `observe` | acquire | system | device |
//! | `publish` | release | system | device |
//! | `peek_own`, `set_own` | relaxed | none | the thread's block, whose threads alone use the word |
//! | `fetch_add_relaxed`, `count` (no answer) | relaxed read-modify-write | none | device |
//! | `try_acquire` | acquire compare-and-exchange | none | device |
//! | `claim_bits`, `fetch_add_acquire` | acquire read-modify-write | none | device |
//! | `fetch_set_bits`, `set_bits` (no answer) | release read-modify-write | none | device |
//! | `fetch_add`, `fetch_sub`, `compare_exchange` | acquire and release | none | device |
//! | `compare_exchange_fenced`, `set_bits_fenced` (no answer) | release, behind `release_fence` | none | device |
//!
//! A caller's `// ORDERING:` line names the partner. Back ends:
//!
//! | file | for | how |
//! |---|---|---|
//! | `host.rs` | CPUs | `core` atomics |
//! | `host.rs` | AMDGCN | the same: they come out with the waits and cache actions of system scope, also where device scope would do (`gpufs-device/tests/golden`) |
//! | `nvptx.rs` | NVPTX | inline assembly: there `core` atomics lose their order |
//! | `loom.rs` | model checking | loom's atomics |
//! | `ahead.rs` | CPUs | a hint, which is no access |
//! | `stores.rs` | all | ordinary stores of one lane, which orders nothing |

#[cfg(not(any(loom, target_arch = "nvptx64")))]
mod host;
#[cfg(not(any(loom, target_arch = "nvptx64")))]
use host as backend;

#[cfg(target_arch = "nvptx64")]
mod nvptx;
#[cfg(target_arch = "nvptx64")]
use nvptx as backend;

#[cfg(loom)]
mod loom;
#[cfg(loom)]
use self::loom as backend;

mod ahead;
mod stores;
pub use ahead::fetch_ahead;
pub use stores::{store_if, store_two_if};

pub use backend::{
    DeviceWord, DeviceWord64, EntryCell, SharedWord, SharedWord64, device_fence, release_fence, wake_fence,
};
