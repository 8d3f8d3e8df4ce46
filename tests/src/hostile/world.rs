//! A session in the middle of a scene, and how attempts act in it, whatever its device.

use std::ffi::CStr;
use std::time::Duration;

use gpufs_core::Errno;
use gpufs_core::abi::Sqe;
use gpufs_device::file::Descriptor;
use gpufs_device::{Fs, kernel::Kernel};
use gpufs_host::session::OpenError;
use gpufs_host::{Builder, Sandbox, Session, Sockets};
use gpufs_test_kernels::{Answer, BATCH_MAX, Harm, HostileCall, hostile_call, hostile_entries};

use super::{Area, SECRET, Scene, Seen, Way, scene};
use crate::suite::Device;

/// Where in the session's memory the host says what a kernel is to do: entries, what came of them, a call and its strings. No attempt uses that.
const ENTRIES: usize = 0x8000;
const ANSWERS: usize = 0x9000;
const CALL: usize = 0xa000;
const TEXTS: [usize; 2] = [0xb000, 0xd000];

/// A session, the scene that it must not reach, and memory for a kernel's own use.
#[derive(Debug)]
pub struct World {
    /// What must stay as it is.
    pub scene: Scene,
    /// Its kernels attack.
    pub session: Session,
    /// Memory of the session.
    pub area: Area,
    /// How it is served.
    pub way: Way,
    device: Device,
    boxed: bool,
    /// What became of the device, where a kernel has ended it.
    broken: Option<String>,
    /// In the numbers of kernels.
    kept: Descriptor,
    /// A descriptor that a kernel opened: `inside/file`, in the numbers that entries of the session have.
    pub own: i32,
    /// Index of a file that the host registered: `inside/sub/file`.
    pub registered: u32,
}

/// A small session for attacks.
pub(super) fn builder(way: Way) -> Builder {
    crate::small()
        .idle(Duration::from_millis(20))
        .deadline(Duration::from_secs(5))
        .report_failures(false)
        .report_fallback(false)
        .mode(way.mode())
}

/// The sandbox of all attempts: `inside` for everything, `readonly` for reading, sockets that reach the friends, and pairs; nothing else.
fn sandbox(scene: &Scene) -> Sandbox {
    let (tcp, udp) = &scene.friends;
    let sockets = Sockets::new()
        .pairs()
        .tcp_to(tcp.local_addr().expect("bound"))
        .udp_to(udp.local_addr().expect("bound"));
    Sandbox::new().read_write_create(scene.path("inside")).read_only(scene.path("readonly")).sockets(sockets)
}

fn open(device: &Device, builder: Builder) -> Result<Session, OpenError> {
    match device {
        Device::Cpu(options) => builder.cpu_with(options.clone()),
        // What opens by a path and starts a command has a frame of its own in one kernel.
        Device::Cuda { ordinal, program } => builder.gpu_stack(32 << 10).cuda(*ordinal, program),
    }
}

impl World {
    /// A session in the middle of a new scene.
    pub(super) fn new(device: &Device, way: Way, boxed: bool) -> Result<Self, OpenError> {
        let scene = Scene::new();
        let mut builder = builder(way);
        if boxed {
            builder = builder.sandbox(sandbox(&scene));
        }
        let mut session = open(device, builder)?;
        let file = std::fs::File::open(scene.path("inside/sub/file")).expect("a file of the scene");
        let registered = session.register_file(file).expect("a place in the table").0;
        let area = Area::of(crate::tables(&session));
        let (device, kept) = (device.clone(), Descriptor(u32::MAX));
        let mut world =
            Self { scene, session, area, way, device, boxed, broken: None, kept, own: -1, registered };
        world.settle();
        Ok(world)
    }
    /// Opens what a kernel has open, and notes how everything is.
    fn settle(&mut self) {
        self.area.clear();
        let path = crate::c_path(&self.scene.path("inside/file"));
        let kept = self.call(Harm::Keep, &path, None, libc::O_RDWR.cast_unsigned());
        let kept = kept.expect("a kernel that ends").expect("what the sandbox allows");
        self.kept = Descriptor(u32::try_from(kept).expect("a descriptor"));
        self.own = crate::tables(&self.session).process_descriptor(self.kept).expect("just opened");
        self.scene.note();
    }
    /// The world again, in a new scene, once an attempt without a sandbox has harmed the old one; `None`, and the session is left behind, if it
    /// was harmed, too. Opening another on a GPU takes a second.
    pub(super) fn renewed(mut self) -> Option<Self> {
        if self.boxed || !self.is_well() {
            std::mem::forget(self);
            return None;
        }
        self.scene.renew();
        // It may be closed.
        let _ = self.call_on(Harm::Close, self.kept);
        self.settle();
        Some(self)
    }
    /// Whether kernels can use the rings as before.
    fn is_well(&mut self) -> bool {
        let rings = crate::tables(&self.session).ring_count;
        self.broken.is_none()
            && self.rests()
            && self.session.ring_failure().is_none()
            && (0..rings).all(|ring| self.submit_on(ring, &[Sqe::nop()]) == [Some(0)])
    }

    /// The ring that is attacked.
    fn ring(&self) -> u32 {
        let tables = crate::tables(&self.session);
        if self.way == Way::Services { tables.ring_count - 1 } else { 0 }
    }
    /// The results of entries that a lane puts into the ring that is attacked, as one batch.
    pub fn submit(&mut self, entries: &[Sqe]) -> Vec<Option<i32>> {
        let ring = self.ring();
        self.submit_on(ring, entries)
    }
    /// As [`World::submit`], on the ring that the library takes for services.
    pub fn submit_to_services(&mut self, entries: &[Sqe]) -> Vec<Option<i32>> {
        let ring = crate::tables(&self.session).ring_count - 1;
        self.submit_on(ring, entries)
    }
    fn submit_on(&mut self, ring: u32, entries: &[Sqe]) -> Vec<Option<i32>> {
        assert!(entries.len() <= BATCH_MAX, "one batch");
        // In a sandbox each is refused, and a worker of a busy machine may take its time for that. Without one, some wait for good.
        let patience_ns = if self.boxed { 3_000_000_000 } else { 15_000_000 };
        for (index, entry) in entries.iter().enumerate() {
            self.area.write(ENTRIES + index * size_of::<Sqe>(), *entry);
            self.area.write(ANSWERS + index * size_of::<Answer>(), Answer::default());
        }
        let (entries, count) = (self.area.base + ENTRIES as u64, entries.len() as u32);
        let answers = self.area.base + ANSWERS as u64;
        let arguments = hostile_entries::Arguments { ring, entries, count, answers, patience_ns };
        self.start::<hostile_entries::Entry>(arguments);
        let answer = |index| self.area.read::<Answer>(ANSWERS + index * size_of::<Answer>());
        (0..count as usize).map(answer).map(|got| (got.completed == 1).then_some(got.result)).collect()
    }
    /// Runs a kernel of one lane to its end.
    fn start<K: Kernel>(&mut self, arguments: K::Arguments) {
        use gpufs_host::session::SyncError;
        let started = self.session.start::<K>(crate::lanes(1), arguments);
        // What the streams could not write is no matter here.
        if let Err(error @ (SyncError::Fault(_) | SyncError::Gpu(_) | SyncError::Dead)) =
            started.and_then(|()| self.session.synchronize())
        {
            self.broken.get_or_insert_with(|| error.to_string());
        }
    }
    /// What a call of the library returned in a kernel; `None` where that was ended.
    pub fn call(
        &mut self,
        what: Harm,
        path: &CStr,
        other: Option<&CStr>,
        flags: u32,
    ) -> Option<Result<i64, Errno>> {
        self.made(what, Some(path), other, flags, Descriptor(u32::MAX))
    }
    /// As [`World::call`], of a descriptor.
    pub fn call_on(&mut self, what: Harm, descriptor: Descriptor) -> Option<Result<i64, Errno>> {
        self.made(what, None, None, 0, descriptor)
    }
    fn made(
        &mut self,
        what: Harm,
        path: Option<&CStr>,
        other: Option<&CStr>,
        flags: u32,
        descriptor: Descriptor,
    ) -> Option<Result<i64, Errno>> {
        let text = |at, text: Option<&CStr>| self.area.put(at, text.unwrap_or_default().to_bytes_with_nul());
        let (path, other) = (text(TEXTS[0], path), text(TEXTS[1], other));
        let call = HostileCall { what, descriptor: descriptor.0, path, other, flags, errno: -1, value: 0 };
        self.area.write(CALL, call);
        self.start::<hostile_call::Entry>(hostile_call::Arguments { call: self.area.base + CALL as u64 });
        let call: HostileCall = self.area.read(CALL);
        match call.errno {
            -1 => None,
            0 => Some(Ok(call.value)),
            errno => Some(Err(Errno::from_number(errno))),
        }
    }
    /// What one lane returns; `None` where its kernel was ended. On CPU lanes.
    pub fn lane<T: Send>(&mut self, kernel: impl Fn(Fs) -> T + Sync) -> Option<T> {
        let result = std::sync::Mutex::new(None);
        let ended = self.session.run(crate::lanes(1), |fs| {
            let made = kernel(fs);
            *result.lock().expect("one lane") = Some(made);
        });
        // What the streams could not write is no matter here.
        drop(ended);
        result.into_inner().expect("one lane")
    }
    /// Whether the ring that was attacked serves others: a call of the library's on CPU lanes, on a GPU one more entry.
    pub fn goes_on(&mut self) -> bool {
        match self.device {
            Device::Cpu(_) => self.lane(|fs| fs.nop()) == Some(Ok(())),
            Device::Cuda { .. } => self.submit(&[Sqe::nop()]) == [Some(0)],
        }
    }
    /// The address of a path in the session's memory.
    pub fn path(&self, offset: usize, name: &str) -> u64 {
        self.text(offset, crate::c_path(&self.scene.path(name)).as_bytes_with_nul())
    }
    /// The address of bytes in the session's memory.
    pub fn text(&self, offset: usize, bytes: &[u8]) -> u64 {
        self.area.put(offset, bytes)
    }
    /// What was reached, changed or given away, for the table.
    pub(super) fn harm(&self, seen: &Seen) -> Option<String> {
        let mut harm = Vec::new();
        if let Seen::Harm(text) = seen {
            harm.push(text.clone());
        }
        harm.extend(self.broken.clone());
        harm.extend(self.scene.changes());
        if scene::contains(&self.area.all(), SECRET) {
            harm.push("a secret is in the session's memory".into());
        }
        (!harm.is_empty()).then(|| harm.join("; ").replace(['\n', '\t'], " "))
    }
    /// One more session like the world's, for attempts that end it.
    ///
    /// # Panics
    /// If it cannot be opened.
    #[must_use]
    pub fn another(&self) -> Session {
        self.another_with(|builder| builder)
    }
    /// As [`World::another`], with other choices.
    ///
    /// # Panics
    /// As there.
    #[must_use]
    pub fn another_with(&self, choose: impl FnOnce(Builder) -> Builder) -> Session {
        let builder = choose(builder(self.way));
        let builder = if self.boxed { builder.sandbox(sandbox(&self.scene)) } else { builder };
        open(&self.device, builder).expect("as before")
    }
    /// Whether nothing is in flight.
    pub(super) fn rests(&self) -> bool {
        let tables = crate::tables(&self.session);
        tables.all_queues().iter().all(|queue| queue.free_slots() == queue.capacity())
    }
}
