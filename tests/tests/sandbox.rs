//! What kernels of a session in a sandbox can do, and what they cannot, in each mode.
#![expect(unsafe_code, reason = "reaches the tables, as a kernel that means harm does, and pretends a fault")]

use std::ffi::{CStr, CString};
use std::fs;
use std::io::Write as _;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gpufs_core::service::Service;
use gpufs_core::session::OpenFile;
use gpufs_device::file::{
    IoSlice, IoSliceMut, O_CREAT, O_DIRECTORY, O_EXCL, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY, Whence,
};
use gpufs_device::socket::{AF_INET, AF_UNIX, PollFd, SOCK_STREAM, SocketAddress};
use gpufs_device::{Errno, Fs, fprintf};
use gpufs_host::ring::Mode;
use gpufs_host::session::{OpenError, SyncError};
use gpufs_host::{Sandbox, Session};
use gpufs_tests::closures::{child, is_child, run_child};
use gpufs_tests::{MODES, each, lanes, once, refuse_call, skip, small};

/// A folder with `in/` (a tree), `out/` (none), and files in both; it goes with this.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gpufs-sandbox-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        for folder in ["in", "out", "in/deep"] {
            fs::create_dir_all(path.join(folder)).expect("a folder");
        }
        fs::write(path.join("in/file"), "inside").expect("a file");
        fs::write(path.join("out/secret"), "outside").expect("a file");
        std::os::unix::fs::symlink("../out/secret", path.join("in/link")).expect("a link");
        std::os::unix::fs::symlink(path.join("out"), path.join("in/away")).expect("a link");
        Self(path)
    }
    fn tree(&self) -> PathBuf {
        self.0.join("in")
    }
    fn path(&self, name: &str) -> CString {
        c(&self.0.join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("a path")
}

/// A session in each mode that works here. SKIP by name where none does.
fn sessions(test: &str, sandbox: &Sandbox) -> Vec<(Mode, Session)> {
    let open = |mode: Mode| match Session::builder().mode(mode).sandbox(sandbox.clone()).cpu() {
        Ok(session) => Some((mode, session)),
        Err(OpenError::Ring(refused)) if mode != Mode::Threads => {
            println!("SKIP {test} in {mode}: {refused}");
            None
        }
        Err(OpenError::Sandbox(refused)) => {
            println!("SKIP {test}: {refused}");
            None
        }
        Err(other) => panic!("{mode}: {other}"),
    };
    MODES.into_iter().filter_map(open).collect()
}

fn open(fs: Fs, path: &CStr, flags: u32) -> Result<(), Errno> {
    let opened = fs.open(path, flags, 0o644)?;
    fs.close(opened)
}

#[test]
fn paths_outside_are_refused() {
    let folder = Folder::new("paths");
    let sandbox = Sandbox::new().read_write_create(folder.tree());
    for (mode, mut session) in sessions("paths_outside_are_refused", &sandbox) {
        once(&mut session, |fs| {
            let climbing = folder.path("in/../out/secret");
            let climbing_deep = folder.path("in/deep/../../out/secret");
            let refused: [&CStr; 11] = [
                c"/etc/passwd",
                c"/etc/there-is-no-such-file",
                c"/proc/self/mem",
                c"/proc/self/fd/0",
                c"/proc/thread-self/root/etc/passwd",
                c"/",
                &folder.path("out/secret"),
                &folder.path("in/link"),
                &folder.path("in/away/secret"),
                &climbing,
                &climbing_deep,
            ];
            for path in refused {
                for flags in
                    [O_RDONLY, O_RDWR, O_WRONLY | O_CREAT | O_TRUNC, O_RDONLY | O_DIRECTORY, 0o10_000_000]
                {
                    assert_eq!(open(fs, path, flags), Err(Errno::ACCES), "{mode}: {path:?}, {flags:o}");
                }
                assert_eq!(fs.stat(path).map(|_| ()), Err(Errno::ACCES), "{mode}: {path:?}");
                assert_eq!(fs.access(path, 0), Err(Errno::ACCES), "{mode}: {path:?}");
                assert_eq!(fs.truncate(path, 0), Err(Errno::ACCES), "{mode}: {path:?}");
                assert_eq!(fs.chmod(path, 0o777), Err(Errno::ACCES), "{mode}: {path:?}");
            }
            for path in [c"/etc/passwd", &*folder.path("out/secret")] {
                assert_eq!(fs.unlink(path), Err(Errno::ACCES), "{mode}");
                assert_eq!(fs.rename(path, &folder.path("in/stolen")), Err(Errno::ACCES), "{mode}");
                assert_eq!(fs.link(path, &folder.path("in/stolen")), Err(Errno::ACCES), "{mode}");
                assert_eq!(fs.rename(&folder.path("in/file"), path), Err(Errno::ACCES), "{mode}");
            }
            assert_eq!(fs.mkdir(&folder.path("out/made"), 0o755), Err(Errno::ACCES), "{mode}");
            assert_eq!(fs.readlink(c"/proc/self/exe", &mut [0; 64]), Err(Errno::ACCES), "{mode}");
            // The working directory and the mask are the host's.
            assert_eq!(fs.chdir(&folder.path("in")), Err(Errno::ACCES), "{mode}");
            assert_eq!(fs.umask(0), Err(Errno::ACCES), "{mode}");
            assert_eq!(fs.getenv(c"PATH", &mut [0; 64]), Err(Errno::ACCES), "{mode}");
            assert_eq!(fs.popen(c"true", c"r").map(|_| ()), Err(Errno::ACCES), "{mode}");
        });
        drop(session);
        assert_eq!(
            fs::read_to_string(folder.0.join("out/secret")).expect("it is there"),
            "outside",
            "{mode}"
        );
        assert_eq!(fs::read_dir(folder.0.join("out")).expect("a folder").count(), 1, "{mode}");
    }
}

/// No kernel in a sandbox makes a socket, or uses one otherwise than to poll, read and write what the host gave.
#[test]
fn sockets_are_refused() {
    for (mode, mut session) in sessions("sockets_are_refused", &Sandbox::new()) {
        let (near, mut far) = std::os::unix::net::UnixStream::pair().expect("two ends");
        let socket = session.register_file(std::os::fd::OwnedFd::from(near)).expect("room");
        far.write_all(b"given").expect("room");
        once(&mut session, |fs| {
            let (any, mut bytes) =
                (SocketAddress::from(std::net::SocketAddr::from(([127, 0, 0, 1], 0))), [0; 8]);
            let refused = [
                fs.socket(AF_INET, SOCK_STREAM, 0).map(drop),
                fs.socketpair(AF_UNIX, SOCK_STREAM, 0).map(drop),
                fs.bind(socket, &any),
                fs.listen(socket, 1),
                fs.accept(socket, None).map(drop),
                fs.accept4(socket, None, 0).map(drop),
                fs.connect(socket, &any),
                fs.shutdown(socket, 2),
                fs.send(socket, b"x", 0).map(drop),
                fs.sendto(socket, b"x", 0, &any).map(drop),
                fs.recv(socket, &mut bytes, 0).map(drop),
                fs.recvfrom(socket, &mut bytes, 0, &mut SocketAddress::default()).map(drop),
                fs.sendmsg(socket, &[IoSlice::new(b"x")], 0, Some(&any)).map(drop),
                fs.recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], 0, None).map(drop),
                fs.setsockopt(socket, 1, 2, &bytes[..4]),
                fs.getsockopt(socket, 1, 3, &mut bytes).map(drop),
                fs.getsockname(socket).map(drop),
                fs.getpeername(socket).map(drop),
            ];
            for (at, outcome) in refused.into_iter().enumerate() {
                assert_eq!(outcome, Err(Errno::ACCES), "{mode}: call {at}");
            }
            let mut all = [PollFd { fd: socket.0.cast_signed(), events: 1, revents: 0 }];
            assert_eq!(fs.poll(&mut all, 0), Ok(1), "{mode}");
            assert_eq!(fs.read(socket, &mut bytes), Ok(5), "{mode}");
            assert_eq!(fs.write(socket, b"kernel"), Ok(6), "{mode}");
        });
        let mut came = [0; 6];
        std::io::Read::read_exact(&mut far, &mut came).expect("what the kernel wrote");
        assert_eq!(&came, b"kernel");
    }
}

#[test]
fn paths_inside_work() {
    let folder = Folder::new("inside");
    let sandbox = Sandbox::new().read_write_create(folder.tree());
    for (mode, mut session) in sessions("paths_inside_work", &sandbox) {
        once(&mut session, |fs| {
            let file = fs.open(&folder.path("in/file"), O_RDONLY, 0).expect("inside");
            let mut bytes = [0; 16];
            assert_eq!(fs.pread(file, &mut bytes, 0), Ok(6), "{mode}");
            assert_eq!(&bytes[..6], b"inside", "{mode}");
            assert_eq!(fs.fstat(file).expect("its size").st_size, 6, "{mode}");
            assert_eq!(fs.close(file), Ok(()), "{mode}");
            assert_eq!(fs.stat(&folder.path("in/deep/../file")).expect("inside").st_size, 6, "{mode}");
            assert_eq!(fs.stat(&folder.path("in/nothing")).map(|_| ()), Err(Errno::NOENT), "{mode}");

            let made = folder.path("in/made");
            assert_eq!(fs.mkdir(&made, 0o755), Ok(()), "{mode}");
            let (first, second) = (folder.path("in/made/a"), folder.path("in/made/b"));
            assert_eq!(open(fs, &first, O_WRONLY | O_CREAT | O_EXCL), Ok(()), "{mode}");
            assert_eq!(fs.rename(&first, &second), Ok(()), "{mode}");
            assert_eq!(fs.chmod(&second, 0o600), Ok(()), "{mode}");
            assert_eq!(fs.chmod(&second, 0o4755), Err(Errno::ACCES), "{mode}");
            assert_eq!(fs.truncate(&second, 5), Ok(()), "{mode}");
            assert_eq!(fs.stat(&second).expect("it").st_size, 5, "{mode}");
            assert_eq!(fs.unlink(&second), Ok(()), "{mode}");
            assert_eq!(fs.rmdir(&made), Ok(()), "{mode}");
        });
    }
}

#[test]
fn a_tree_that_is_read_only_stays_as_it_is() {
    let folder = Folder::new("read-only");
    for (mode, mut session) in
        sessions("a_tree_that_is_read_only_stays_as_it_is", &Sandbox::new().read_only(folder.tree()))
    {
        once(&mut session, |fs| {
            let file = folder.path("in/file");
            assert_eq!(open(fs, &file, O_RDONLY), Ok(()), "{mode}");
            for flags in [O_WRONLY, O_RDWR, O_RDONLY | O_TRUNC, O_WRONLY | O_CREAT | O_TRUNC] {
                assert_eq!(open(fs, &file, flags), Err(Errno::ACCES), "{mode}: {flags:o}");
            }
            assert_eq!(open(fs, &folder.path("in/new"), O_WRONLY | O_CREAT), Err(Errno::ACCES), "{mode}");
            assert_eq!(open(fs, &folder.path("in/new"), O_RDONLY | O_CREAT), Err(Errno::ACCES), "{mode}");
            assert_eq!(fs.unlink(&file), Err(Errno::ACCES), "{mode}");
            assert_eq!(fs.truncate(&file, 0), Err(Errno::ACCES), "{mode}");
            assert_eq!(fs.chmod(&file, 0o777), Err(Errno::ACCES), "{mode}");
        });
        drop(session);
        assert_eq!(fs::read_to_string(folder.0.join("in/file")).expect("it is there"), "inside", "{mode}");
    }
}

#[test]
fn a_tree_without_creation_keeps_its_entries() {
    let folder = Folder::new("write");
    for (mode, mut session) in
        sessions("a_tree_without_creation_keeps_its_entries", &Sandbox::new().read_write(folder.tree()))
    {
        once(&mut session, |fs| {
            let file = folder.path("in/file");
            assert_eq!(open(fs, &file, O_WRONLY | O_CREAT), Ok(()), "{mode}: it exists");
            assert_eq!(fs.truncate(&file, 3), Ok(()), "{mode}");
            assert_eq!(open(fs, &folder.path("in/new"), O_WRONLY | O_CREAT), Err(Errno::ACCES), "{mode}");
            assert_eq!(open(fs, &file, O_WRONLY | O_CREAT | O_EXCL), Err(Errno::ACCES), "{mode}");
            assert_eq!(fs.unlink(&file), Err(Errno::ACCES), "{mode}");
            assert_eq!(fs.mkdir(&folder.path("in/made"), 0o755), Err(Errno::ACCES), "{mode}");
            assert_eq!(fs.rename(&file, &folder.path("in/other")), Err(Errno::ACCES), "{mode}");
        });
        drop(session);
        assert_eq!(fs::read_to_string(folder.0.join("in/file")).expect("it is there"), "ins", "{mode}");
        fs::write(folder.0.join("in/file"), "inside").expect("as before");
    }
}

#[test]
fn streams_of_a_whole_grid_work() {
    let folder = Folder::new("streams");
    let sandbox = Sandbox::new().read_write_create(folder.tree());
    for (mode, mut session) in sessions("streams_of_a_whole_grid_work", &sandbox) {
        let path = folder.path("in/lines");
        each(&mut session, 1024, |fs, lane| {
            let out = fs.fopen_shared(&path, c"w").expect("inside");
            fprintf!(out, c"line %u\n", lane as u32).expect("a line");
            out.fclose().expect("closed");
        });
        // In a launch of its own: a refused open holds a stream for a moment, and 1,023 lanes together hold every stream.
        each(&mut session, 1024, |fs, _| {
            let refused = [Err(Errno::ACCES), Err(Errno::MFILE)];
            assert!(refused.contains(&fs.fopen(c"/etc/passwd", c"r").map(|_| ())), "{mode}");
        });
        let text = fs::read_to_string(folder.0.join("in/lines")).expect("the file");
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), 1024, "{mode}");
        once(&mut session, |fs| {
            let file = fs.fopen(&path, c"r").expect("inside");
            let mut bytes = [0; 8192];
            let read = file.fread(&mut bytes).expect("its bytes");
            assert!(read > 5000 && bytes.starts_with(b"line "), "{mode}: {read}");
            file.fclose().expect("closed");
            // Pieces in memory of the lane's own.
            let file = fs.open(&path, O_RDWR, 0).expect("inside");
            assert_eq!(fs.pwritev(file, &[IoSlice::new(b"LI"), IoSlice::new(b"NE")], 0), Ok(4), "{mode}");
            assert_eq!(fs.close(file), Ok(()), "{mode}");
        });
        assert!(fs::read_to_string(folder.0.join("in/lines")).expect("it").starts_with("LINE "), "{mode}");
    }
}

#[test]
fn what_the_host_gives_works_and_what_it_has_open_does_not() {
    let folder = Folder::new("given");
    let _secret = fs::File::open(folder.0.join("out/secret")).expect("the host's");
    let name = "what_the_host_gives_works_and_what_it_has_open_does_not";
    for (mode, mut session) in sessions(name, &Sandbox::new()) {
        fs::write(folder.0.join("out/given"), "given").expect("a file");
        let given = fs::File::options().read(true).write(true).open(folder.0.join("out/given")).expect("it");
        let index = session.register_file(given).expect("registered");
        let own = fs::File::options().read(true).write(true).open(folder.0.join("out/given")).expect("it");
        let forged = session.register_file(own).expect("registered");
        let log = fs::File::create(folder.0.join("out/log")).expect("a file");
        let stream = session.fdopen(log, "w").expect("a stream");
        let files =
            ["out/given", "out/log"].map(|name| fs::metadata(folder.0.join(name)).expect("a file").ino());
        once(&mut session, |fs| {
            let mut bytes = [0; 8];
            assert_eq!(fs.pread(index, &mut bytes, 0), Ok(5), "{mode}");
            assert_eq!(fs.pwrite(index, b"G", 0), Ok(1), "{mode}");
            assert_eq!(fs.fstat(index).expect("its size").st_size, 5, "{mode}");
            stream.get(fs).expect("open").fputs(c"logged\n").expect("a line");
            // An entry of the table that a kernel overwrites, with each descriptor that the host may have.
            // SAFETY:
            // - the session is open while its kernel runs
            let tables = unsafe { fs.tables() };
            let entry = &tables.files()[forged.0 as usize];
            let (before, flags) = (entry.descriptor.peek(), entry.flags.peek());
            entry.flags.publish(flags & !OpenFile::FIXED);
            for number in 0..256 {
                entry.descriptor.set(number);
                if let Ok(read) = fs.pread(forged, &mut bytes, 0) {
                    assert_eq!(&bytes[..read], b"Given", "{mode}: {number}");
                }
                match fs.fstat(forged) {
                    Ok(stat) => assert!(files.contains(&stat.st_ino), "{mode}: {number}"),
                    Err(errno) => assert_eq!(errno, Errno::BADF, "{mode}: {number}"),
                }
            }
            entry.descriptor.set(before);
            entry.flags.publish(flags);
        });
        let mut copy = fs::File::from(session.fileno(stream).expect("a duplicate"));
        writeln!(copy, "by the host").expect("written");
        session.unregister_file(index).expect("taken back");
        session.unregister_file(forged).expect("taken back");
        drop(session);
        assert_eq!(fs::read_to_string(folder.0.join("out/given")).expect("it"), "Given", "{mode}");
        assert_eq!(
            fs::read_to_string(folder.0.join("out/log")).expect("it"),
            "logged\nby the host\n",
            "{mode}"
        );
    }
}

#[test]
fn what_streams_accepted_before_a_fault_is_written() {
    let folder = Folder::new("fault");
    let sandbox = Sandbox::new().read_write_create(folder.tree());
    for mode in MODES {
        let builder = small().mode(mode).survives(true).sandbox(sandbox.clone());
        let mut session = match builder.cpu() {
            Ok(session) => session,
            Err(refused) => {
                skip("what_streams_accepted_before_a_fault_is_written", refused);
                continue;
            }
        };
        let path = folder.path("in/kept");
        let name = path.clone();
        let kernel = move |fs: Fs| {
            let out = fs.fopen(&name, c"w").expect("inside");
            out.fputs(c"accepted").expect("room in its buffer");
        };
        session.launch(lanes(1), kernel).expect("launched");
        while !session.is_finished() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        // SAFETY:
        // - its kernel has ended
        let error = unsafe { session.pretend_fault() };
        let SyncError::Fault(fault) = error else { panic!("{mode}: {error}") };
        assert_eq!((fault.recovery.lost(), fault.recovery.streams.len()), (0, 1), "{mode}: {fault}");
        assert!(fault.recovery.streams[0].file.ends_with("in/kept"), "{mode}: {fault}");
        drop(session);
        assert_eq!(fs::read_to_string(folder.0.join("in/kept")).expect("it"), "accepted", "{mode}");
    }
}

#[test]
fn standard_streams_are_there_where_they_are_named() {
    let folder = Folder::new("standard");
    let name = "standard_streams_are_there_where_they_are_named";
    for (mode, mut session) in sessions(name, &Sandbox::new().read_only(folder.tree())) {
        once(&mut session, |fs| {
            assert_eq!(fs.stdout().fputs(c"not to be seen\n"), Err(Errno::BADF), "{mode}");
        });
    }
    for (mode, mut session) in sessions(name, &Sandbox::new().standard_streams()) {
        once(&mut session, |fs| fprintf!(fs.stderr(), c"to be seen\n").expect("written"));
        let _ = mode;
    }
}

/// A position is moved through a socket of the host's, which is not a kernel's to use.
#[test]
fn positions_of_standard_streams_are_the_hosts() {
    const NAME: &str = "positions_of_standard_streams_are_the_hosts";
    if !is_child(NAME) {
        return run_child(NAME);
    }
    let folder = Folder::new("positions");
    let input = fs::File::open(folder.0.join("in/file")).expect("a file");
    // SAFETY:
    // - takes numbers; nothing else in this process reads its standard input
    assert_eq!(unsafe { libc::dup2(input.as_raw_fd(), 0) }, 0);
    for (mode, mut session) in sessions(NAME, &Sandbox::new().standard_streams()) {
        once(&mut session, |fs| {
            let mut bytes = [0; 6];
            assert_eq!(fs.stdin().fseek(0, Whence::Set), Err(Errno::ACCES), "{mode}");
            fs.stdin().fread(&mut bytes).expect("what is left of it");
        });
    }
}

/// Twice the number.
struct Double;
impl Service for Double {
    const NAME: &'static str = "double";
    type Request = u64;
    type Reply = u64;
}

/// Opens a file of the host's: where it runs, that is allowed.
struct Outside;
impl Service for Outside {
    const NAME: &'static str = "outside";
    type Request = u64;
    type Reply = u64;
}

#[test]
fn functions_that_are_named_run_outside() {
    for mode in MODES {
        let sandbox = Sandbox::new().service("outside");
        let builder = Session::builder().mode(mode).sandbox(sandbox);
        let opened = builder
            .service::<Double>(|number| Ok(2 * number))
            .service::<Outside>(|_| {
                fs::read("/etc/passwd").map(|text| text.len() as u64).map_err(|_| Errno::IO)
            })
            .cpu();
        let mut session = match opened {
            Ok(session) => session,
            Err(refused) => {
                skip("functions_that_are_named_run_outside", refused);
                continue;
            }
        };
        each(&mut session, 64, |fs, _| {
            assert_eq!(fs.call::<Double>(&2), Err(Errno::ACCES), "{mode}");
            assert!(fs.call::<Outside>(&2).expect("it runs outside") > 0, "{mode}");
        });
    }
}

#[test]
fn sessions_leave_nothing_behind() {
    let folder = Folder::new("behind");
    let counts = || {
        let count = |path: &str| fs::read_dir(path).expect("a folder").count();
        (count("/proc/self/fd"), count("/proc/self/task"))
    };
    let sandbox = Sandbox::new().read_write_create(folder.tree()).service("none");
    let round = || {
        for (mode, mut session) in sessions("sessions_leave_nothing_behind", &sandbox) {
            let path = folder.path("in/file");
            once(&mut session, |fs| {
                let file = fs.open(&path, O_RDONLY, 0).expect("inside");
                assert_eq!(fs.pread(file, &mut [0; 4], 0), Ok(4), "{mode}");
            });
        }
    };
    if !is_child("sessions_leave_nothing_behind") {
        let output = child("sessions_leave_nothing_behind").wait_with_output().unwrap();
        return assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    round();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let before = counts();
    for _ in 0..5 {
        round();
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    let after = counts();
    assert!(
        after.0 <= before.0 + 1 && after.1 <= before.1 + 2,
        "descriptors, threads: {before:?}, {after:?}"
    );
}

#[test]
fn a_tree_that_is_not_there_is_named() {
    let refused = Session::builder().sandbox(Sandbox::new().read_only("/no/such/tree")).cpu().unwrap_err();
    assert!(refused.to_string().contains("/no/such/tree"), "{refused}");
}

/// `landlock_create_ruleset(2)`.
const LANDLOCK_CREATE_RULESET: i64 = 444;

#[test]
fn where_linux_lacks_landlock_a_sandbox_is_refused_unless_it_may_be_weaker() {
    const NAME: &str = "where_linux_lacks_landlock_a_sandbox_is_refused_unless_it_may_be_weaker";
    if !is_child(NAME) {
        let output = child(NAME).wait_with_output().expect("its end");
        let text = String::from_utf8_lossy(&output.stdout);
        println!("{text}");
        return assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    }
    let folder = Folder::new("weaker");
    let sandbox = Sandbox::new().read_only(folder.tree());
    if let Err(refused) = Session::builder().sandbox(sandbox.clone()).cpu() {
        return skip(NAME, refused);
    }
    if let Err(refused) = refuse_call(LANDLOCK_CREATE_RULESET, libc::ENOSYS) {
        return skip(NAME, refused);
    }
    let refused = Session::builder().sandbox(sandbox.clone()).cpu().unwrap_err().to_string();
    assert!(refused.contains("no Landlock") && refused.contains("as_far_as_possible"), "{refused}");
    // What Landlock only stands behind is refused all the same.
    let sandbox = sandbox.read_write_create(folder.0.join("out")).as_far_as_possible();
    for (mode, mut session) in sessions(NAME, &sandbox) {
        once(&mut session, |fs| {
            for path in [c"/etc/passwd", &*folder.path("in/link")] {
                assert_eq!(open(fs, path, O_RDONLY), Err(Errno::ACCES), "{mode}: {path:?}");
            }
            assert_eq!(open(fs, &folder.path("in/file"), O_RDWR), Err(Errno::ACCES), "{mode}");
            assert_eq!(open(fs, &folder.path("in/file"), O_RDONLY), Ok(()), "{mode}");
            // A second name in another tree would allow what its own does not.
            let linked = fs.link(&folder.path("in/file"), &folder.path("out/name"));
            assert_eq!(linked, Err(Errno::ACCES), "{mode}");
        });
    }
}
