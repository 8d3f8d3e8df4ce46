//! What a kernel must not reach: files outside of its trees, descriptors, memory, sockets and processes of the host; and whether something of
//! it has changed.
#![expect(unsafe_code, reason = "asks the system about descriptors and memory")]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use crate::Scratch;

/// What every secret begins with. It stands nowhere but in secrets.
pub const SECRET: &[u8] = b"SECRET-";
/// What host memory that must stay holds.
const CANARY: u8 = 0x5a;
const PAGE: usize = 4096;
/// Descriptors of a scene are from here on.
pub(super) const HOST_NUMBERS: i32 = 200;

/// A page of the host's own.
#[derive(Debug)]
pub struct Page(*mut u8);

impl Page {
    fn filled(with: &[u8]) -> Self {
        // SAFETY:
        // - a new mapping, which takes the place of nothing
        let page = unsafe {
            let (access, kind) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            libc::mmap(std::ptr::null_mut(), PAGE, access, kind, -1, 0)
        };
        assert_ne!(page, libc::MAP_FAILED, "a page");
        let page = Self(page.cast());
        for at in 0..PAGE {
            // SAFETY:
            // - within the page
            unsafe { page.0.wrapping_add(at).write_volatile(with[at % with.len()]) };
        }
        page
    }
    /// Its address.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.0.expose_provenance() as u64
    }
    fn bytes(&self) -> Vec<u8> {
        // SAFETY:
        // - within the page, which stays as long as the process
        (0..PAGE).map(|at| unsafe { self.0.wrapping_add(at).read_volatile() }).collect()
    }
}

/// The world outside of a session. Its pages stay mapped until the process ends.
#[derive(Debug)]
pub struct Scene {
    scratch: Scratch,
    /// `outside/canary`, open for reading and writing.
    pub canary: File,
    /// `outside`, a directory.
    pub folder: File,
    /// A pipe that holds a secret, and one that is empty.
    pub pipes: [(OwnedFd, OwnedFd); 2],
    /// Two connected sockets; a secret waits at the first.
    pub sockets: (UnixStream, UnixStream),
    /// A listener with nobody waiting, one with a connection to take, and a socket that is connected to nobody.
    pub listeners: [UnixListener; 2],
    /// See above.
    pub loose: OwnedFd,
    _caller: UnixStream,
    /// Whom kernels may reach: a listener of TCP, and a socket of UDP.
    pub friends: (TcpListener, UdpSocket),
    /// Whom they may not.
    pub strangers: (TcpListener, UdpSocket, UnixDatagram),
    /// An epoll that watches the empty pipe.
    pub epoll: OwnedFd,
    /// A child that has ended and was not waited for.
    pub child: Child,
    /// Memory of the host that must not change.
    pub memory: Page,
    /// Memory of the host that must not be read.
    pub secret: Page,
    before: BTreeMap<String, String>,
}

fn owned(fd: RawFd) -> OwnedFd {
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY:
    // - the system has just made it, and nothing else owns it
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// The same file by a number that no file of a kernel's has, so that nobody takes one for the other: kernels in a sandbox have numbers of their own.
fn high<T: From<OwnedFd>>(file: impl Into<OwnedFd>) -> T {
    let file: OwnedFd = file.into();
    // SAFETY:
    // - takes numbers
    T::from(owned(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, HOST_NUMBERS) }))
}

fn pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    (high(reader), high(writer))
}

fn events(fd: &impl AsRawFd) -> i16 {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN | libc::POLLRDHUP, revents: 0 };
    // SAFETY:
    // - one entry, which is alive
    unsafe { libc::poll(&raw mut poll, 1, 0) };
    poll.revents
}

fn waiting_bytes(fd: &impl AsRawFd) -> i32 {
    let mut bytes: libc::c_int = -1;
    // SAFETY:
    // - FIONREAD writes an int, which is alive
    unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    bytes
}

/// The files of a scene.
fn plant(scratch: &Scratch, secret: &[u8]) {
    for name in ["inside/sub", "readonly", "outside/sub"] {
        fs::create_dir_all(scratch.path(name)).expect("a directory");
    }
    for name in ["inside/file", "inside/sub/file", "readonly/file"] {
        fs::write(scratch.path(name), "free to be read").expect("a file");
    }
    for name in ["outside/secret", "outside/sub/secret", "outside/canary"] {
        fs::write(scratch.path(name), secret).expect("a file");
    }
    // Where the file system has attributes.
    let attributed = crate::c_path(&scratch.path("outside/secret"));
    // SAFETY:
    // - both names end with a NUL, and the value is as long as said
    unsafe {
        libc::setxattr(attributed.as_ptr(), c"user.secret".as_ptr(), SECRET.as_ptr().cast(), SECRET.len(), 0);
    }
    symlink("../outside", scratch.path("inside/escape")).expect("a link");
    symlink(scratch.path("outside"), scratch.path("inside/absolute")).expect("a link");
    symlink("../outside/secret", scratch.path("inside/file-escape")).expect("a link");
    symlink("../outside/made", scratch.path("inside/dangling")).expect("a link");
}

impl Scene {
    /// A new one, in a directory of its own.
    ///
    /// ```text
    /// inside/   file, sub/file        open to the kernels
    /// readonly/ file                  open for reading
    /// outside/  secret, canary, sub/  not open
    /// inside/escape → ../outside, inside/absolute → outside, inside/file-escape → ../outside/secret
    /// ```
    ///
    /// # Panics
    /// If the system refuses.
    #[must_use]
    pub fn new() -> Self {
        let scratch = Scratch::new("hostile");
        let secret = format!("SECRET-{}-{}", std::process::id(), scratch.dir().display()).into_bytes();
        plant(&scratch, &secret);
        let canary = OpenOptions::new().read(true).write(true).open(scratch.path("outside/canary"));
        let folder = File::open(scratch.path("outside"));
        let pipes = [pipe(), pipe()];
        // A pipe's buffer holds it.
        File::from(pipes[0].1.try_clone().expect("a descriptor"))
            .write_all(&secret)
            .expect("a pipe's buffer");
        let sockets = UnixStream::pair().expect("two sockets");
        let sockets: (UnixStream, UnixStream) = (high(sockets.0), high(sockets.1));
        (&sockets.1).write_all(&secret).expect("a socket's buffer");
        let listen = |name| high(UnixListener::bind(scratch.path(name)).expect("a listener"));
        let listeners = [listen("outside/quiet"), listen("outside/called")];
        let caller = high(UnixStream::connect(scratch.path("outside/called")).expect("a connection"));
        // SAFETY:
        // - these calls take numbers
        let loose = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
        // SAFETY:
        // - takes a number
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        let (loose, epoll): (OwnedFd, OwnedFd) = (high(owned(loose)), high(owned(epoll)));
        let mut watched = libc::epoll_event { events: libc::EPOLLIN.cast_unsigned(), u64: 1 };
        // SAFETY:
        // - the event is alive, and the descriptors are this scene's
        unsafe {
            let empty = pipes[1].0.as_raw_fd();
            libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, empty, &raw mut watched);
        }
        let tcp = || high(TcpListener::bind(("127.0.0.1", 0)).expect("a port"));
        let udp = || high(UdpSocket::bind(("127.0.0.1", 0)).expect("a port"));
        let (friends, letters) = ((tcp(), udp()), UnixDatagram::bind(scratch.path("outside/letters")));
        let strangers = (tcp(), udp(), high(letters.expect("a socket")));
        let child = Command::new("/bin/true").spawn().expect("a child");
        // SAFETY:
        // - an all-zero structure is one
        let mut how: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY:
        // - the call fills the structure, and leaves the child to be waited for
        unsafe { libc::waitid(libc::P_PID, child.id(), &raw mut how, libc::WEXITED | libc::WNOWAIT) };
        Self {
            canary: high(canary.expect("the canary")),
            folder: high(folder.expect("the folder")),
            pipes,
            sockets,
            listeners,
            loose,
            _caller: caller,
            friends,
            strangers,
            epoll,
            child,
            memory: Page::filled(&[CANARY]),
            secret: Page::filled(&secret),
            scratch,
            before: BTreeMap::new(),
        }
    }
    /// Makes it a new one, whatever an attempt has closed of it, or put in the place of it. Its pages stay.
    pub(super) fn renew(&mut self) {
        // SAFETY:
        // - all numbers from there on are of this scene, or were; who owns them is forgotten below
        unsafe { libc::close_range(HOST_NUMBERS.cast_unsigned(), libc::c_uint::MAX, 0) };
        // An attempt may have waited for it.
        let _ = self.child.try_wait();
        // What stays behind is only litter.
        let _ = fs::remove_dir_all(self.scratch.dir());
        // Its numbers are the new one's now.
        std::mem::forget(std::mem::take(self));
    }
    /// A path in the scene's directory.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path(name)
    }
    /// Notes how everything is, once the session is open.
    pub fn note(&mut self) {
        self.before = self.state();
    }
    /// What has changed since [`Scene::note`].
    #[must_use]
    pub fn changes(&self) -> Vec<String> {
        let after = self.state();
        let mut changes = Vec::new();
        for (what, was) in &self.before {
            match after.get(what) {
                None => changes.push(format!("{what} is gone")),
                Some(is) if is != was => changes.push(format!("{what} has changed")),
                Some(_) => {}
            }
        }
        let new = after.iter().filter(|(what, _)| !self.before.contains_key(*what));
        changes.extend(new.map(|(what, is)| {
            let is: String = is.lines().next().unwrap_or_default().chars().take(60).collect();
            format!("{what} is new ({is})")
        }));
        changes
    }
    /// The host's descriptors.
    #[must_use]
    pub fn descriptors() -> BTreeMap<RawFd, String> {
        Self::descriptors_in(Path::new("/proc/self/fd"))
    }
    /// The descriptors that the kernels of the newest session in a sandbox have; `None` where there is none.
    #[must_use]
    pub fn descriptors_of_kernels() -> Option<BTreeMap<RawFd, String>> {
        let threads = fs::read_dir("/proc/self/task").expect("/proc").flatten();
        let name = |thread: &fs::DirEntry| fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        // Sessions that attempts have left behind are older. After the largest number of a thread small ones come again, so it is the time that
        // counts.
        let begun = |thread: &fs::DirEntry| {
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            let fields = stat.rsplit_once(')')?.1;
            let start = fields.split_whitespace().nth(19)?.parse::<u64>().ok()?;
            Some((start, thread.file_name().to_str()?.parse::<u32>().ok()?))
        };
        let family = threads.filter(|thread| name(thread).trim() == "gpufs-family").max_by_key(begun)?;
        Some(Self::descriptors_in(&family.path().join("fd")))
    }
    fn descriptors_in(folder: &Path) -> BTreeMap<RawFd, String> {
        let entries = fs::read_dir(folder).expect("/proc").flatten();
        let named = |entry: fs::DirEntry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            let target = fs::read_link(entry.path()).ok()?;
            Some((number, target.to_string_lossy().into_owned()))
        };
        // The listing itself is open while it is read.
        entries.filter_map(named).filter(|(_, target)| !target.ends_with("/fd")).collect()
    }

    fn state(&self) -> BTreeMap<String, String> {
        let mut state = BTreeMap::new();
        for tree in ["outside", "readonly"] {
            files(&self.path(tree), tree, &mut state);
        }
        let mut inside = BTreeMap::new();
        files(&self.path("inside"), "inside", &mut inside);
        // What happens there is the kernels' business, but that nothing secret comes there.
        for (name, content) in inside {
            if contains(content.as_bytes(), SECRET) {
                state.insert(format!("secret in {name}"), String::new());
            }
        }
        for (number, target) in Self::descriptors() {
            if Path::new(&target).starts_with(self.path("inside"))
                || Path::new(&target).starts_with(self.path("readonly"))
            {
                continue;
            }
            // Whether a descriptor's file is at another place, has other flags, or is watched by others.
            let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
            let kept = |line: &&str| ["pos:", "flags:", "tfd:"].iter().any(|word| line.starts_with(word));
            let is_ring = target.contains("io_uring");
            let info: Vec<_> = if is_ring { Vec::new() } else { info.lines().filter(kept).collect() };
            state.insert(format!("descriptor {number}"), format!("{target}\n{}", info.join("\n")));
        }
        let mut put = |name: &str, is: String| state.insert(name.to_owned(), is);
        put("memory of the host", format!("{:?}", self.memory.bytes()));
        put("bytes in the pipe", waiting_bytes(&self.pipes[0].0).to_string());
        put("bytes in the empty pipe", waiting_bytes(&self.pipes[1].0).to_string());
        let ends = [&self.sockets.0, &self.sockets.1];
        put("the sockets", format!("{:?}", ends.map(|end| (waiting_bytes(end), events(end)))));
        put("the listeners", format!("{:?}", self.listeners.each_ref().map(events)));
        put("the loose socket", events(&self.loose).to_string());
        let (listener, udp, letters) = &self.strangers;
        let bytes = (waiting_bytes(udp), waiting_bytes(letters));
        put("the strangers", format!("{} {bytes:?}", events(listener)));
        // SAFETY:
        // - an all-zero structure is one
        let mut how: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let options = libc::WEXITED | libc::WNOWAIT | libc::WNOHANG;
        // SAFETY:
        // - the call fills the structure, and leaves the child to be waited for
        let child = unsafe { libc::waitid(libc::P_PID, self.child.id(), &raw mut how, options) };
        put("the child's end", child.to_string());
        put("the working directory", format!("{:?}", std::env::current_dir().ok()));
        state
    }
}

impl Default for Scene {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // Its number may be another's if the attempt waited for it: then this fails.
        let _ = self.child.wait();
    }
}

/// Whether `part` lies in `all`.
#[must_use]
pub(super) fn contains(all: &[u8], part: &[u8]) -> bool {
    all.windows(part.len()).any(|window| window == part)
}

/// Everything below `path` that a write would change.
fn files(path: &Path, name: &str, into: &mut BTreeMap<String, String>) {
    let Ok(about) = fs::symlink_metadata(path) else { return };
    let content = if about.is_file() {
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    } else {
        fs::read_link(path).map_or_else(|_| String::new(), |to| to.display().to_string())
    };
    let mut attributes = [0_u8; 256];
    let text = crate::c_path(path);
    // SAFETY:
    // - the path ends with a NUL, and the buffer is as long as said
    let listed = unsafe { libc::llistxattr(text.as_ptr(), attributes.as_mut_ptr().cast(), attributes.len()) };
    let attributes = &attributes[..usize::try_from(listed).unwrap_or(0)];
    let about = (about.mode(), about.size(), about.mtime(), about.mtime_nsec(), about.nlink(), about.uid());
    into.insert(name.to_owned(), format!("{about:?} {attributes:?} {content}"));
    if let Ok(entries) = fs::read_dir(path)
        && !path.is_symlink()
    {
        for entry in entries.flatten() {
            files(&entry.path(), &format!("{name}/{}", entry.file_name().to_string_lossy()), into);
        }
    }
}
