//! One function for each operation. Arguments are references and numbers, so that what is not the operation is little.

use gpufs_core::abi::{Cqe, Sqe};
use gpufs_core::word::{DeviceWord, DeviceWord64, EntryCell, SharedWord, SharedWord64, wake_fence};
use gpufs_device::warp::{CallSite, LaneMask, Lanes, Machine, Warp};

static SITE: CallSite = CallSite::new();

/// The lanes of a mask.
fn lanes_of(mask: u64) -> Lanes {
    // SAFETY:
    // - nothing calls the functions below
    unsafe { Lanes::of_mask(LaneMask(mask)) }
}

macro_rules! golden {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? { $body:expr })*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name($($argument: $type),*) $(-> $result)? {
                $body
            }
        )*
    };
}

golden! {
    golden_shared_peek(word: &SharedWord) -> u32 { word.peek() }
    golden_shared_observe(word: &SharedWord) -> u32 { word.observe() }
    golden_shared_set(word: &SharedWord, value: u32) { word.set(value) }
    golden_shared_publish(word: &SharedWord, value: u32) { word.publish(value) }
    golden_shared64_observe(word: &SharedWord64) -> u64 { word.observe() }
    golden_shared64_set(word: &SharedWord64, value: u64) { word.set(value) }
    golden_shared64_publish(word: &SharedWord64, value: u64) { word.publish(value) }
    golden_device_peek(word: &DeviceWord) -> u32 { word.peek() }
    golden_device_observe(word: &DeviceWord) -> u32 { word.observe() }
    golden_device_set(word: &DeviceWord, value: u32) { word.set(value) }
    golden_device_publish(word: &DeviceWord, value: u32) { word.publish(value) }
    golden_device_fetch_add_relaxed(word: &DeviceWord, value: u32) -> u32 { word.fetch_add_relaxed(value) }
    golden_device_fetch_add(word: &DeviceWord, value: u32) -> u32 { word.fetch_add(value) }
    golden_device_fetch_sub(word: &DeviceWord, value: u32) -> u32 { word.fetch_sub(value) }
    golden_device_claim_bits(word: &DeviceWord, bits: u32) -> u32 { word.claim_bits(bits) }
    golden_device_fetch_set_bits(word: &DeviceWord, bits: u32) -> u32 { word.fetch_set_bits(bits) }
    golden_device_compare_exchange(word: &DeviceWord, current: u32, new: u32) -> bool { word.compare_exchange(current, new).is_ok() }
    golden_device64_observe(word: &DeviceWord64) -> u64 { word.observe() }
    golden_device64_publish(word: &DeviceWord64, value: u64) { word.publish(value) }
    golden_device64_fetch_add(word: &DeviceWord64, value: u64) -> u64 { word.fetch_add(value) }
    golden_device64_claim_bits(word: &DeviceWord64, bits: u64) -> u64 { word.claim_bits(bits) }
    golden_device64_fetch_set_bits(word: &DeviceWord64, bits: u64) -> u64 { word.fetch_set_bits(bits) }
    golden_device64_compare_exchange(word: &DeviceWord64, current: u64, new: u64) -> bool { word.compare_exchange(current, new).is_ok() }
    golden_wake_fence() { wake_fence() }
    golden_calling() -> u64 { Lanes::calling_at(&SITE).mask().0 }
    golden_ballot(lanes: u64, predicate: bool) -> u64 { lanes_of(lanes).ballot(predicate).0 }
    golden_shuffle(lanes: u64, value: u64, from: u32) -> u64 { lanes_of(lanes).shuffle(value, from) }
    golden_broadcast(lanes: u64, value: u64, from: u32) -> u64 { lanes_of(lanes).broadcast(value, from) }
    golden_sync(lanes: u64) { lanes_of(lanes).sync() }
    golden_clock() -> u64 { Machine::clock() }
}

/// An SQE as the device writes it: what is not known when it is compiled comes from registers.
#[unsafe(no_mangle)]
extern "C" fn golden_write_sqe(
    entry: &EntryCell<Sqe>,
    fd: i32,
    address: u64,
    bytes: u32,
    offset: u64,
    token: u64,
) {
    let sqe = Sqe::write(fd, address, bytes, offset).with_user_data(token);
    // SAFETY:
    // - nothing calls this
    unsafe { entry.write(sqe) };
}

/// A CQE as the device reads it, folded to one number.
#[unsafe(no_mangle)]
extern "C" fn golden_read_cqe(entry: &EntryCell<Cqe>) -> u64 {
    // SAFETY:
    // - nothing calls this
    let cqe = unsafe { entry.read() };
    cqe.user_data ^ u64::from(cqe.res.cast_unsigned())
}

/// Data, barrier, word: the store before the barrier stays before it.
#[unsafe(no_mangle)]
extern "C" fn golden_store_sync_publish(lanes: u64, data: &mut u32, word: &SharedWord) {
    *data = 1;
    lanes_of(lanes).sync();
    word.publish(2);
}

/// A ballot whose answer a branch before it decides: one ballot, where all lanes meet.
#[unsafe(no_mangle)]
extern "C" fn golden_ballot_after_branch(lanes: u64, wanted: bool, word: &DeviceWord) -> u64 {
    let found = wanted.then(|| word.fetch_add_relaxed(1));
    let answer = lanes_of(lanes).ballot(found.is_some());
    found.map_or(0, u64::from) + answer.0
}
