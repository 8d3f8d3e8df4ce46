//! The client: submits, waits, and knows nothing of what serves the ring.

use std::collections::HashMap;
use std::ffi::CString;
use std::path::{Path, PathBuf};

use gpufs_core::abi::Sqe;
use gpufs_core::word::SharedWord;
use gpufs_host::ring::{Mode, Ring, RingConfig, RingMemory, RingParts, RingService};

/// One producer and consumer of a ring.
pub(crate) struct Client {
    parts: RingParts,
    /// SQEs published.
    tail: u32,
    /// CQEs consumed.
    head: u32,
    results: HashMap<u64, i32>,
}

impl Client {
    pub(crate) fn new(ring: &Ring) -> Self {
        Self::of(ring.parts())
    }
    pub(crate) fn of(parts: RingParts) -> Self {
        // SAFETY:
        // - words of the ring's, which every test keeps open while it has a client
        // ORDERING: relaxed; nothing is in flight.
        let (tail, head) = unsafe { ((*parts.sq_tail).peek(), (*parts.cq_head).peek()) };
        Self { parts, tail, head, results: HashMap::new() }
    }
    pub(crate) fn word(&self, word: *const SharedWord) -> &SharedWord {
        // SAFETY:
        // - a word of the ring's, which every test keeps open while it has a client
        unsafe { &*word }
    }
    /// Publishes an entry; the `user_data` that it was given. Waits for room in the SQ only, so that a test can exceed its
    /// credits.
    pub(crate) fn push(&mut self, sqe: Sqe) -> u64 {
        let [user_data] = self.push_all([sqe]);
        user_data
    }
    /// Publishes entries together.
    pub(crate) fn push_all<const N: usize>(&mut self, entries: [Sqe; N]) -> [u64; N] {
        let numbers = entries.map(|sqe| self.fill(sqe));
        // ORDERING: release; partner: the service's observe of the tail.
        self.word(self.parts.sq_tail).publish(self.tail);
        numbers
    }
    fn fill(&mut self, sqe: Sqe) -> u64 {
        // Ends: the service consumes entries.
        // ORDERING: acquire; partner: the service's publish of the SQ head. It has read the entry to be overwritten.
        while self.tail.wrapping_sub(self.word(self.parts.sq_head).observe()) >= self.parts.sq_entries {
            std::thread::yield_now();
        }
        let user_data = u64::from(self.tail) | 0xabcd << 32;
        let index = self.tail & (self.parts.sq_entries - 1);
        // SAFETY:
        // - masked, so in the ring
        // - consumed (the head was observed past it), so this producer's alone until the tail is published
        unsafe { (*self.parts.sqes.wrapping_add(index as usize)).write(sqe.with_user_data(user_data)) };
        self.tail = self.tail.wrapping_add(1);
        user_data
    }
    /// Consumes what has been posted.
    pub(crate) fn drain(&mut self) {
        // ORDERING: acquire; partner: the service's publish of the CQ tail.
        let tail = self.word(self.parts.cq_tail).observe();
        while self.head != tail {
            let index = self.head & (self.parts.cq_entries - 1);
            // SAFETY:
            // - masked, so in the ring
            // - posted (the tail was observed past it) and not given back yet
            let cqe = unsafe { (*self.parts.cqes.wrapping_add(index as usize)).read() };
            assert_eq!(cqe.flags, 0);
            assert_eq!(self.results.insert(cqe.user_data, cqe.res), None, "one SQE gives one CQE");
            self.head = self.head.wrapping_add(1);
        }
        // ORDERING: release; partner: the service's observe of the CQ head.
        self.word(self.parts.cq_head).publish(self.head);
    }
    pub(crate) fn is_done(&mut self, user_data: u64) -> bool {
        self.drain();
        self.results.contains_key(&user_data)
    }
    /// The result of an entry.
    pub(crate) fn wait(&mut self, user_data: u64) -> i32 {
        // Ends: every entry is completed.
        while !self.is_done(user_data) {
            std::thread::yield_now();
        }
        self.results.remove(&user_data).expect("it is done")
    }
    pub(crate) fn run(&mut self, sqe: Sqe) -> i32 {
        let user_data = self.push(sqe);
        self.wait(user_data)
    }
}

/// Every kind of ring, by name.
pub(crate) fn kinds() -> Vec<(&'static str, RingConfig)> {
    let kind =
        |mode, memory| RingConfig { mode, memory, entries: 64, cq_entries: 128, ..RingConfig::default() };
    let with_array = RingConfig { index_array: true, ..kind(Mode::Sqpoll, RingMemory::Kernel) };
    let own_with_array = RingConfig { index_array: true, ..kind(Mode::Enter, RingMemory::Caller) };
    vec![
        ("sqpoll, kernel memory", kind(Mode::Sqpoll, RingMemory::Kernel)),
        ("sqpoll, caller memory", kind(Mode::Sqpoll, RingMemory::Caller)),
        ("sqpoll, runtime memory", kind(Mode::Sqpoll, RingMemory::Runtime)),
        ("sqpoll, kernel memory, index array", with_array),
        ("enter, kernel memory", kind(Mode::Enter, RingMemory::Kernel)),
        ("enter, caller memory", kind(Mode::Enter, RingMemory::Caller)),
        ("enter, runtime memory", kind(Mode::Enter, RingMemory::Runtime)),
        ("enter, caller memory, index array", own_with_array),
        ("threads", kind(Mode::Threads, RingMemory::Caller)),
        ("threads, runtime memory", kind(Mode::Threads, RingMemory::Runtime)),
    ]
}

/// Opens a ring, or says why this machine has none.
pub(crate) fn open(name: &str, config: &RingConfig) -> Option<Ring> {
    match Ring::open(config) {
        Ok(ring) => {
            assert_eq!(
                (ring.parts().sq_entries, ring.parts().cq_entries),
                (config.entries, config.cq_entries)
            );
            Some(ring)
        }
        Err(error) => {
            println!("SKIP {name}: {error}");
            assert_ne!(config.mode, Mode::Threads, "threads work everywhere: {error}");
            None
        }
    }
}

/// Runs `test` on every kind of ring, changed by `adapt`, with a service that is busy.
pub(crate) fn on_every_kind(
    adapt: impl Fn(&mut RingConfig),
    test: impl Fn(&str, &Ring, &mut Client, &RingService),
) {
    for (name, mut config) in kinds() {
        adapt(&mut config);
        let Some(ring) = open(name, &config) else { continue };
        println!("{name}");
        let service = RingService::start(&[&ring]).expect("a fresh ring has no service");
        let guard = service.busy();
        test(name, &ring, &mut Client::new(&ring), &service);
        drop(guard);
        let report = service.report();
        assert_eq!(report.rings[0].failures, 0, "{report:?}");
    }
}

/// A folder of a test's own, removed in the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ring-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("the target folder is writable");
        Self(path)
    }
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
    /// The path as an entry wants it.
    pub(crate) fn c_path(&self, name: &str) -> CString {
        CString::new(self.path(name).into_os_string().into_encoded_bytes()).expect("no NUL in a path")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The address of something, as an entry wants it.
pub(crate) fn address<T: ?Sized>(of: *const T) -> u64 {
    of.cast::<u8>().expose_provenance() as u64
}
