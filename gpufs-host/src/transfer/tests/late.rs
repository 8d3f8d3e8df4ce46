//! A driver whose copies end late.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Mutex;

use super::super::bus::{Bus, Located, Mark, Queue, ToGpu};
use super::super::request::{Direction, MemoryKind};
use crate::gpu::GpuError;

/// A copy that was asked for.
#[derive(Clone, Copy, Debug)]
struct Copy {
    direction: Direction,
    pub(super) device: u64,
    host: usize,
    bytes: usize,
}

#[derive(Debug, Default)]
pub(super) struct Held {
    /// Queued copies, by queue.
    queues: HashMap<usize, Vec<Copy>>,
    /// What stands before each mark, and how often it was looked at.
    marks: HashMap<usize, (Vec<Copy>, u32)>,
    made: usize,
    /// Stretches of memory that are a GPU's: address, bytes.
    pub(super) device: Vec<(u64, usize)>,
    pub(super) followed: usize,
    /// How many copies each request had that was taken, and how many were refused.
    pub(super) requests: Vec<usize>,
    pub(super) refused: usize,
    /// Marks that were put.
    put: usize,
}

/// A driver: memory of its GPU is the host's, and a copy happens when its mark is looked at for the third time.
#[derive(Debug, Default)]
pub(super) struct Late {
    pub(super) held: Mutex<Held>,
    pub(super) pins: bool,
    pub(super) takes_many: bool,
    /// Copies to this address are refused, alone and with others.
    pub(super) wrong: u64,
    /// A mark is reached at this look; the third, if that is later.
    pub(super) looks: u32,
    /// After so many marks that were put the driver does not work any more; 0: it does.
    pub(super) breaks_after: usize,
}

// SAFETY:
// - pinned memory is leaked; a mark is reached when the copies before it were made
unsafe impl Bus for Late {
    fn look_up(&self, address: u64) -> Result<Option<Located>, GpuError> {
        let held = self.held.lock().unwrap();
        let inside = |(begin, bytes): &&(u64, usize)| (*begin..*begin + *bytes as u64).contains(&address);
        Ok(held.device.iter().find(inside).map(|_| Located { kind: MemoryKind::Device, gpu: 3 }))
    }
    fn pinned(&self, _gpu: u32, bytes: usize) -> Result<NonNull<u8>, GpuError> {
        if !self.pins {
            return Err(GpuError::NoRuntime("nothing is pinned".to_owned()));
        }
        Ok(NonNull::from(vec![0_u8; bytes].leak()).cast())
    }
    fn queue(&self, gpu: u32) -> Result<Queue, GpuError> {
        self.mark(gpu).map(|Mark(number)| Queue(number))
    }
    fn mark(&self, gpu: u32) -> Result<Mark, GpuError> {
        assert_eq!(gpu, 3, "the GPU that the memory is of");
        let mut held = self.held.lock().unwrap();
        held.made += 1;
        Ok(Mark(held.made))
    }
    unsafe fn forget(&self, _gpu: u32, Mark(mark): Mark) {
        self.held.lock().unwrap().marks.remove(&mark);
    }
    unsafe fn copy(
        &self,
        _gpu: u32,
        Queue(queue): Queue,
        direction: Direction,
        device: u64,
        host: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), GpuError> {
        if device == self.wrong {
            return Err(GpuError::NoRuntime("a copy that is refused".to_owned()));
        }
        let copy = Copy { direction, device, host: host.as_ptr().expose_provenance(), bytes };
        self.held.lock().unwrap().queues.entry(queue).or_default().push(copy);
        Ok(())
    }
    fn takes_many(&self) -> bool {
        self.takes_many
    }
    unsafe fn copy_all(&self, gpu: u32, queue: Queue, copies: &[ToGpu]) -> Result<(), GpuError> {
        assert!(self.takes_many && !copies.is_empty());
        for ToGpu { device, host, bytes } in copies {
            // SAFETY:
            // - this function's contract
            if let Err(error) = unsafe { self.copy(gpu, queue, Direction::Read, *device, *host, *bytes) } {
                self.held.lock().unwrap().refused += 1;
                return Err(error);
            }
        }
        self.held.lock().unwrap().requests.push(copies.len());
        Ok(())
    }
    unsafe fn put(&self, _gpu: u32, Mark(mark): Mark, Queue(queue): Queue) -> Result<(), GpuError> {
        let mut held = self.held.lock().unwrap();
        held.put += 1;
        if self.breaks_after != 0 && held.put > self.breaks_after {
            return Err(GpuError::NoRuntime("a driver that does not work".to_owned()));
        }
        let before = held.queues.remove(&queue).unwrap_or_default();
        held.marks.insert(mark, (before, 0));
        Ok(())
    }
    unsafe fn follow(&self, _gpu: u32, _queue: Queue, _mark: Mark) -> Result<(), GpuError> {
        self.held.lock().unwrap().followed += 1;
        Ok(())
    }
    unsafe fn is_reached(&self, _gpu: u32, Mark(mark): Mark) -> Result<bool, GpuError> {
        let mut held = self.held.lock().unwrap();
        let (copies, looks) = held.marks.get_mut(&mark).expect("a mark that was put");
        *looks += 1;
        if *looks < self.looks.max(3) {
            return Ok(false);
        }
        for Copy { direction, device, host, bytes } in copies.drain(..) {
            let device = std::ptr::with_exposed_provenance_mut::<u8>(usize::try_from(device).unwrap());
            let host = std::ptr::with_exposed_provenance_mut::<u8>(host);
            let (from, to) = if direction == Direction::Read { (host, device) } else { (device, host) };
            // SAFETY:
            // - a chunk and memory of the test's, both as long, which do not overlap
            unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
        }
        Ok(true)
    }
}
