//! Sockets in kernels, in each mode and warp width: TCP, UDP and Unix beside the host's own, peers that vanish, waits that end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use gpufs_core::word::DeviceWord;
use gpufs_device::file::Descriptor;
use gpufs_device::socket::{
    AF_INET, AF_INET6, AF_UNIX, IPPROTO_TCP, MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC, MSG_WAITALL, POLL_MAX,
    POLLHUP, POLLIN, POLLNVAL, POLLOUT, PollFd, SHUT_RDWR, SHUT_WR, SO_ERROR, SO_REUSEADDR, SO_TYPE,
    SOCK_DGRAM, SOCK_NONBLOCK, SOCK_SEQPACKET, SOCK_STREAM, SOL_SOCKET, SocketAddress, TCP_NODELAY,
};
use gpufs_device::{Errno, Fs, fprintf, warp};
use gpufs_host::cpu::Schedule;
use gpufs_host::{CpuOptions, Grid, Session};
use gpufs_tests::{MODES, Scratch, each, once, skip, small};

const WIDTHS: [u32; 2] = [1, 32];

/// Calls `body` with a session in each mode, of warps of each width.
fn everywhere(mut body: impl FnMut(&mut Session)) {
    for mode in MODES {
        for width in WIDTHS {
            let options = CpuOptions { width, ..CpuOptions::default() };
            match small().mode(mode).cpu_with(options) {
                Ok(mut session) => body(&mut session),
                Err(refused) => skip(&format!("{mode}, width {width}"), refused),
            }
        }
    }
}

const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A socket that listens, and its address.
fn listening(fs: Fs) -> (Descriptor, SocketAddr) {
    let socket = fs.socket(AF_INET, SOCK_STREAM, 0).unwrap();
    fs.setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &1_i32.to_ne_bytes()).unwrap();
    fs.bind(socket, &LOCAL.into()).unwrap();
    fs.listen(socket, 64).unwrap();
    let address = fs.getsockname(socket).unwrap().ip().unwrap();
    (socket, address)
}

/// Gives back what comes, until the peer has ended.
fn echo(fs: Fs, connection: Descriptor) -> usize {
    let (mut bytes, mut all) = ([0; 300], 0);
    loop {
        match fs.recv(connection, &mut bytes, 0).unwrap() {
            0 => break,
            count => {
                assert_eq!(fs.send(connection, &bytes[..count], 0), Ok(count));
                all += count;
            }
        }
    }
    fs.close(connection).unwrap();
    all
}

fn text(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|at| ((at * 7 + seed * 13) % 251) as u8).collect()
}

#[test]
fn a_kernel_echoes_to_clients_of_the_host() {
    everywhere(|session| {
        let (socket, address) = once(session, listening);
        const LANES: u32 = 8;
        let clients: Vec<_> = (0..LANES as usize)
            .map(|client| {
                thread::spawn(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    let wanted = text(50_000 + client, client);
                    let mut reader = stream.try_clone().unwrap();
                    let came = thread::spawn(move || {
                        let mut came = Vec::new();
                        reader.read_to_end(&mut came).unwrap();
                        came
                    });
                    for part in wanted.chunks(777) {
                        stream.write_all(part).unwrap();
                    }
                    stream.shutdown(Shutdown::Write).unwrap();
                    assert!(came.join().unwrap() == wanted, "client {client}");
                })
            })
            .collect();
        let sums = each(session, LANES, |fs, _| {
            let mut peer = SocketAddress::default();
            let connection = fs.accept(socket, Some(&mut peer)).unwrap();
            assert_eq!(fs.getpeername(connection), Ok(peer));
            assert!(peer.ip().unwrap().ip().is_loopback());
            echo(fs, connection)
        });
        for client in clients {
            client.join().unwrap();
        }
        assert_eq!(sums.iter().sum::<usize>(), 8 * 50_000 + 28);
        once(session, |fs| fs.close(socket)).unwrap();
    });
}

#[test]
fn a_kernel_asks_servers_of_the_host() {
    everywhere(|session| {
        let server = TcpListener::bind(LOCAL).unwrap();
        let address = SocketAddress::from(server.local_addr().unwrap());
        let served = thread::spawn(move || {
            for _ in 0..6 {
                let (stream, _) = server.accept().unwrap();
                thread::spawn(move || {
                    let mut line = String::new();
                    BufReader::new(&stream).read_line(&mut line).unwrap();
                    (&stream).write_all(line.to_uppercase().as_bytes()).unwrap();
                });
            }
        });
        each(session, 6, |fs, lane| {
            let socket = fs.socket(AF_INET, SOCK_STREAM, 0).unwrap();
            fs.connect(socket, &address).unwrap();
            fs.setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &1_i32.to_ne_bytes()).unwrap();
            let asked = format!("question {lane}\n");
            assert_eq!(fs.send(socket, asked.as_bytes(), 0), Ok(asked.len()));
            let mut answer = vec![0; asked.len()];
            assert_eq!(fs.recv(socket, &mut answer, MSG_WAITALL), Ok(asked.len()));
            assert_eq!(answer, asked.to_uppercase().as_bytes());
            // And the end.
            assert_eq!(fs.recv(socket, &mut answer, 0), Ok(0));
            fs.close(socket).unwrap();
        });
        served.join().unwrap();
    });
}

/// Lanes of one warp are server and client: who waits keeps nobody from running.
#[test]
fn lanes_of_one_warp_are_each_others_peers() {
    let machines =
        [(32, Schedule::Fast), (32, Schedule::Seeded(1)), (32, Schedule::Seeded(2)), (64, Schedule::Fast)];
    for mode in MODES {
        for (width, schedule) in machines {
            let options = CpuOptions { width, schedule, ..CpuOptions::default() };
            let Ok(mut session) = small().mode(mode).cpu_with(options) else {
                skip("lanes_of_one_warp_are_each_others_peers", mode);
                continue;
            };
            let (socket, address) = once(&mut session, listening);
            each(&mut session, 16, |fs, lane| {
                if lane % 2 == 0 {
                    let connection = fs.accept(socket, None).unwrap();
                    assert_eq!(echo(fs, connection), 10_000);
                } else {
                    let client = fs.socket(AF_INET, SOCK_STREAM, 0).unwrap();
                    fs.connect(client, &address.into()).unwrap();
                    let wanted = text(10_000, lane as usize);
                    for part in wanted.chunks(2_500) {
                        assert_eq!(fs.send(client, part, 0), Ok(part.len()));
                        let mut came = vec![0; part.len()];
                        assert_eq!(fs.recv(client, &mut came, MSG_WAITALL), Ok(part.len()));
                        assert_eq!(came, part);
                    }
                    fs.shutdown(client, SHUT_WR).unwrap();
                    assert_eq!(fs.recv(client, &mut [0], 0), Ok(0));
                    fs.close(client).unwrap();
                }
            });
        }
    }
}

#[test]
fn datagrams_keep_their_bounds() {
    everywhere(|session| {
        let host = UdpSocket::bind(LOCAL).unwrap();
        let host_address = host.local_addr().unwrap();
        let (sender, addresses) = channel();
        let sender = Mutex::new(sender);
        let answers = thread::spawn(move || {
            let mut bytes = vec![0; 70_000];
            for _ in 0..12 {
                let (count, from) = host.recv_from(&mut bytes).unwrap();
                assert_eq!(host.send_to(&bytes[..count], from).unwrap(), count);
            }
            let late: SocketAddr = addresses.recv().unwrap();
            host.send_to(b"unasked", late).unwrap();
            host.send_to(b"", late).unwrap();
        });
        each(session, 4, |fs, lane| {
            let socket = fs.socket(AF_INET, SOCK_DGRAM, 0).unwrap();
            fs.bind(socket, &LOCAL.into()).unwrap();
            for bytes in [1, 1_000, 40_000] {
                let wanted = text(bytes, lane as usize);
                assert_eq!(fs.sendto(socket, &wanted, 0, &host_address.into()), Ok(bytes));
                let mut came = vec![0; 50_000];
                let mut of = SocketAddress::default();
                assert_eq!(fs.recvfrom(socket, &mut came, 0, &mut of), Ok(bytes));
                assert!(came[..bytes] == wanted && of.ip() == Some(host_address));
            }
            if lane == 0 {
                let mine = fs.getsockname(socket).unwrap().ip().unwrap();
                sender.lock().unwrap().send(mine).unwrap();
                let mut three = [0; 3];
                assert_eq!(fs.recv(socket, &mut three, MSG_PEEK | MSG_TRUNC), Ok(7));
                // What does not fit is lost.
                assert_eq!((fs.recv(socket, &mut three, 0), &three), (Ok(3), b"una"));
                assert_eq!(fs.recv(socket, &mut three, 0), Ok(0));
                assert_eq!(fs.recv(socket, &mut three, MSG_DONTWAIT), Err(Errno::AGAIN));
                // A peer by `connect`.
                fs.connect(socket, &host_address.into()).unwrap();
                assert_eq!(fs.send(socket, b"", 0), Ok(0));
                assert_eq!(fs.send(socket, &vec![0; 66_000], 0), Err(Errno::MSGSIZE));
            }
            fs.close(socket).unwrap();
        });
        answers.join().unwrap();
    });
}

#[test]
fn unix_sockets_of_each_kind() {
    let scratch = Scratch::new("unix");
    let place = |name: &str| scratch.path(name).as_os_str().as_encoded_bytes().to_vec();
    everywhere(|session| {
        let _ = std::fs::remove_file(scratch.path("kernel"));
        let _ = std::fs::remove_file(scratch.path("host"));
        let host = UnixListener::bind(scratch.path("host")).unwrap();
        let socket = once(session, |fs| {
            let socket = fs.socket(AF_UNIX, SOCK_STREAM, 0).unwrap();
            fs.bind(socket, &SocketAddress::unix(&place("kernel")).unwrap()).unwrap();
            fs.listen(socket, 4).unwrap();
            socket
        });
        let path = scratch.path("kernel");
        let peers = thread::spawn(move || {
            let mut stream = UnixStream::connect(path).unwrap();
            stream.write_all(b"to the kernel").unwrap();
            let mut came = [0; 13];
            stream.read_exact(&mut came).unwrap();
            assert_eq!(&came, b"to the kernel");
            drop(stream);
            let (mut stream, _) = host.accept().unwrap();
            stream.read_exact(&mut came[..4]).unwrap();
            assert_eq!(&came[..4], b"host");
        });
        once(session, |fs| {
            let mut peer = SocketAddress::default();
            let connection = fs.accept4(socket, Some(&mut peer), 0).unwrap();
            // Without a name.
            assert_eq!(peer.unix_path(), Some(&b""[..]));
            assert_eq!(fs.getsockname(connection).unwrap().unix_path(), Some(&place("kernel")[..]));
            assert_eq!(echo(fs, connection), 13);
            let client = fs.socket(AF_UNIX, SOCK_STREAM, 0).unwrap();
            fs.connect(client, &SocketAddress::unix(&place("host")).unwrap()).unwrap();
            assert_eq!(fs.send(client, b"host", 0), Ok(4));
            for open in [client, socket] {
                fs.close(open).unwrap();
            }
            for kind in [SOCK_DGRAM, SOCK_SEQPACKET] {
                let [one, other] = fs.socketpair(AF_UNIX, kind, 0).unwrap();
                for message in [&b"one"[..], b"", b"three"] {
                    assert_eq!(fs.send(one, message, 0), Ok(message.len()));
                }
                let mut came = [0; 9];
                for message in [&b"one"[..], b"", b"three"] {
                    assert_eq!(fs.recv(other, &mut came, MSG_WAITALL), Ok(message.len()));
                    assert_eq!(&came[..message.len()], message);
                }
                fs.close(one).unwrap();
                fs.close(other).unwrap();
            }
        });
        peers.join().unwrap();
    });
}

/// More connections than may wait: those that come later try again.
#[test]
fn unix_sockets_with_a_short_backlog() {
    everywhere(|session| {
        let name = SocketAddress::unix(b"\0gpufs-sockets-backlog").unwrap();
        each(session, 9, |fs, lane| {
            if lane == 0 {
                let socket = fs.socket(AF_UNIX, SOCK_STREAM, 0).unwrap();
                fs.bind(socket, &name).unwrap();
                fs.listen(socket, 1).unwrap();
                for _ in 1..9 {
                    let connection = fs.accept(socket, None).unwrap();
                    assert_eq!(fs.recv(connection, &mut [0], 0), Ok(1));
                    fs.close(connection).unwrap();
                }
                fs.close(socket).unwrap();
            } else {
                let socket = fs.socket(AF_UNIX, SOCK_STREAM, 0).unwrap();
                // Not there yet, at first.
                while let Err(errno) = fs.connect(socket, &name) {
                    assert_eq!(errno, Errno::CONNREFUSED);
                    warp::nap(100_000);
                }
                assert_eq!(fs.send(socket, b"x", 0), Ok(1));
                fs.close(socket).unwrap();
            }
        });
    });
}

#[test]
fn peers_that_vanish_end_waits() {
    everywhere(|session| {
        let (socket, address) = once(session, listening);
        let vanishing = thread::spawn(move || {
            for way in 0..4 {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(b"half").unwrap();
                if way % 2 == 0 {
                    // Unread bytes make the end a reset.
                    let mut one = [0];
                    stream.read_exact(&mut one).unwrap();
                }
                thread::sleep(Duration::from_millis(20));
            }
        });
        let ends = once(session, |fs| {
            (0..4)
                .map(|way| {
                    let connection = fs.accept(socket, None).unwrap();
                    if way % 2 == 0 {
                        fs.send(connection, b"more than is read", 0).unwrap();
                    }
                    let mut bytes = [0; 8];
                    assert_eq!(fs.recv(connection, &mut bytes, 0), Ok(4));
                    let end = fs.recv(connection, &mut bytes, 0);
                    // Until the system has noticed.
                    let broken = loop {
                        match fs.send(connection, &[0; 4096], 0) {
                            Ok(_) => warp::nap(10_000),
                            Err(errno) => break errno,
                        }
                    };
                    fs.close(connection).unwrap();
                    (end, broken)
                })
                .collect::<Vec<_>>()
        });
        vanishing.join().unwrap();
        for (end, broken) in ends {
            assert!(matches!(end, Ok(0) | Err(Errno::CONNRESET)), "{end:?}");
            assert!(matches!(broken, Errno::PIPE | Errno::CONNRESET), "{broken}");
        }
        // `shutdown` of a listening socket ends those that wait for connections.
        let results = each(session, 5, |fs, lane| {
            if lane == 4 {
                warp::nap(1_000_000);
                return fs.shutdown(socket, SHUT_RDWR).map(|()| 0);
            }
            fs.accept(socket, None).map(|made| made.0)
        });
        assert_eq!(
            results,
            [Err(Errno::INVAL), Err(Errno::INVAL), Err(Errno::INVAL), Err(Errno::INVAL), Ok(0)]
        );
        once(session, |fs| fs.close(socket)).unwrap();
    });
}

#[test]
fn polls_of_one_and_of_several() {
    everywhere(|session| {
        let (near, far): (Vec<_>, Vec<_>) = (0..40).map(|_| UnixDatagram::pair().unwrap()).unzip();
        let near: Vec<u32> =
            near.into_iter().map(|end| session.register_file(OwnedFd::from(end)).unwrap().0).collect();
        let of = |index: usize, events| PollFd { fd: near[index].cast_signed(), events, revents: 0 };
        once(session, |fs| {
            assert_eq!(fs.poll(&mut [of(0, POLLIN)], 0), Ok(0));
            assert_eq!(fs.poll(&mut [], 0), Ok(0));
            let mut all = [
                of(0, POLLIN | POLLOUT),
                of(1, POLLIN),
                PollFd { fd: 63, events: 0, revents: 0 },
                PollFd { fd: -1, events: POLLIN, revents: 7 },
            ];
            assert_eq!(fs.poll(&mut all, -1), Ok(2));
            assert_eq!(all.map(|one| one.revents), [POLLOUT, 0, POLLNVAL, 0]);
            assert_eq!(fs.poll(&mut vec![of(0, POLLIN); POLL_MAX + 1], 0), Err(Errno::INVAL));
            for count in [0, 1, 2, POLL_MAX] {
                let started = Instant::now();
                let mut all: Vec<_> = (0..count).map(|at| of(at % 40, POLLIN)).collect();
                assert_eq!(fs.poll(&mut all, 30), Ok(0), "{count}");
                let took = started.elapsed();
                assert!((30..2_000).contains(&took.as_millis()), "{took:?} of {count}");
            }
        });
        let talk = thread::spawn(move || {
            for (at, far) in far.iter().enumerate().take(12) {
                thread::sleep(Duration::from_millis(3));
                far.send(&[at as u8]).unwrap();
            }
            far
        });
        // Each lane waits for three, of which one speaks.
        each(session, 4, |fs, lane| {
            for round in 0..3 {
                let at = round * 4 + lane as usize;
                let mut all =
                    [of(at, POLLIN), of(20 + lane as usize, POLLIN), of(30 + lane as usize, POLLIN)];
                assert_eq!(fs.poll(&mut all, 10_000), Ok(1));
                assert_eq!(all[0].revents, POLLIN);
                let mut byte = [0];
                assert_eq!(fs.recv(Descriptor(near[at]), &mut byte, MSG_DONTWAIT), Ok(1));
                assert_eq!(byte, [at as u8]);
            }
        });
        drop(talk.join().unwrap());
    });
}

#[test]
fn streams_on_a_connection() {
    everywhere(|session| {
        let (socket, address) = once(session, listening);
        let client = thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            assert_eq!(lines.next().unwrap().unwrap(), "who?");
            // All at once: what is read ahead stays when the kernel writes between two lines.
            stream.write_all(b"world\nmoon\nstars\n").unwrap();
            for name in ["world", "moon", "stars"] {
                assert_eq!(lines.next().unwrap().unwrap(), format!("hello {name}, 7"));
            }
            stream.shutdown(Shutdown::Write).unwrap();
            assert!(lines.next().is_none());
        });
        once(session, |fs| {
            let connection = fs.accept(socket, None).unwrap();
            // One for each direction: what comes and what goes do not wait for each other.
            let answers = fs.fdopen(fs.dup(connection).unwrap(), c"w").unwrap();
            let file = fs.fdopen(connection, c"r").unwrap();
            fprintf!(answers, c"who?\n").unwrap();
            answers.fflush().unwrap();
            let mut line = [0; 64];
            let mut count = 0;
            while let Some(name) = file.fgets(&mut line).unwrap() {
                let name = name.to_str().unwrap().trim_end().to_owned();
                writeln!(answers, "hello {name}, {}", 7).unwrap();
                answers.fflush().unwrap();
                count += 1;
            }
            assert_eq!(count, 3);
            answers.fclose().unwrap();
            assert_eq!(file.fseek(0, gpufs_device::stdio::Whence::Set), Err(Errno::SPIPE));
            file.fclose().unwrap();
            fs.close(socket).unwrap();
        });
        client.join().unwrap();
    });
}

/// One stream in both directions: in turns it works, and where it would lose what came, it says so.
#[test]
fn one_stream_for_both_directions() {
    everywhere(|session| {
        once(session, |fs| {
            let [one, other] = fs.socketpair(AF_UNIX, SOCK_STREAM, 0).unwrap();
            let file = fs.fdopen(one, c"r+").unwrap();
            let mut line = [0; 16];
            for round in 0..3 {
                assert_eq!(fs.send(other, b"ask\n", 0), Ok(4));
                assert_eq!(file.fgets(&mut line).unwrap(), Some(c"ask\n"));
                fprintf!(file, c"%d\n", round).unwrap();
                file.fflush().unwrap();
                assert_eq!(fs.recv(other, &mut line, 0), Ok(2));
                assert_eq!(line[0], b'0' + round as u8);
            }
            assert_eq!(fs.send(other, b"two\nlines\n", 0), Ok(10));
            assert_eq!(file.fgets(&mut line).unwrap(), Some(c"two\n"));
            assert_eq!(file.fputs(c"lost?"), Err(Errno::SPIPE));
            assert_eq!(file.fgets(&mut line).unwrap(), Some(c"lines\n"));
            file.fputs(c"not lost").unwrap();
            file.fclose().unwrap();
            assert_eq!(fs.recv(other, &mut line, 0), Ok(8));
            assert_eq!(fs.recv(other, &mut line, 0), Ok(0));
            fs.close(other).unwrap();
        });
    });
}

/// An option's value of as many bytes as may be is the system's to refuse.
#[test]
fn a_long_option_is_the_systems_to_refuse() {
    everywhere(|session| {
        once(session, |fs| {
            let socket = fs.socket(AF_INET, SOCK_STREAM, 0).unwrap();
            let value = [0; 4097];
            assert_eq!(fs.setsockopt(socket, 1, 9999, &value[..4096]), Err(Errno::NOPROTOOPT));
            assert_eq!(fs.setsockopt(socket, 1, 9999, &value), Err(Errno::INVAL));
            fs.close(socket).unwrap();
        });
    });
}

#[test]
fn errors_are_the_systems() {
    everywhere(|session| {
        // Nobody listens there: it was bound, and is not any more.
        let nobody = TcpListener::bind(LOCAL).unwrap().local_addr().unwrap();
        let files = once(session, |fs| {
            let mut bytes = [0; 16];
            let none = SocketAddress::NONE;
            assert_eq!(fs.socket(99, SOCK_STREAM, 0), Err(Errno::AFNOSUPPORT));
            assert_eq!(fs.socket(AF_INET, 77, 0), Err(Errno::INVAL));
            assert_eq!(fs.socketpair(AF_INET, SOCK_STREAM, 0), Err(Errno::OPNOTSUPP));
            let file = fs.open(c"/dev/null", 2, 0).unwrap();
            let gone = Descriptor(60);
            for (socket, wanted) in
                [(file, Errno::NOTSOCK), (gone, Errno::BADF), (Descriptor(u32::MAX), Errno::BADF)]
            {
                assert_eq!(fs.bind(socket, &none), Err(wanted));
                assert_eq!(fs.listen(socket, 1), Err(wanted));
                assert_eq!(fs.accept(socket, None), Err(wanted));
                assert_eq!(fs.connect(socket, &none), Err(wanted));
                assert_eq!(fs.shutdown(socket, SHUT_WR), Err(wanted));
                assert_eq!(fs.send(socket, b"x", 0), Err(wanted));
                assert_eq!(fs.sendto(socket, b"x", 0, &none), Err(wanted));
                assert_eq!(fs.recv(socket, &mut bytes, 0), Err(wanted));
                assert_eq!(fs.recvfrom(socket, &mut bytes, 0, &mut SocketAddress::default()), Err(wanted));
                assert_eq!(fs.getsockopt(socket, SOL_SOCKET, SO_TYPE, &mut bytes), Err(wanted));
                assert_eq!(fs.setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &bytes), Err(wanted));
                assert_eq!(fs.getsockname(socket), Err(wanted));
                assert_eq!(fs.getpeername(socket), Err(wanted));
            }
            let tcp = fs.socket(AF_INET, SOCK_STREAM, 0).unwrap();
            assert_eq!(fs.accept(tcp, None), Err(Errno::INVAL));
            assert_eq!(fs.accept4(tcp, None, 1), Err(Errno::INVAL));
            assert_eq!(fs.recv(tcp, &mut bytes, 0), Err(Errno::NOTCONN));
            assert_eq!(fs.send(tcp, b"x", 0), Err(Errno::PIPE));
            assert_eq!(fs.getpeername(tcp), Err(Errno::NOTCONN));
            assert_eq!(fs.shutdown(tcp, SHUT_WR), Err(Errno::NOTCONN));
            assert_eq!(fs.getsockopt(tcp, SOL_SOCKET, 9999, &mut bytes), Err(Errno::NOPROTOOPT));
            assert_eq!(fs.setsockopt(tcp, SOL_SOCKET, SO_REUSEADDR, &[0; 4097]), Err(Errno::INVAL));
            assert_eq!(fs.setsockopt(tcp, SOL_SOCKET, SO_REUSEADDR, &[0]), Err(Errno::INVAL));
            assert_eq!(fs.getsockopt(tcp, SOL_SOCKET, SO_TYPE, &mut bytes), Ok(4));
            assert_eq!(bytes[..4], 1_i32.to_ne_bytes());
            assert_eq!(fs.getsockopt(tcp, SOL_SOCKET, SO_TYPE, &mut bytes[..2]), Ok(2));
            assert_eq!(fs.connect(tcp, &nobody.into()), Err(Errno::CONNREFUSED));
            assert_eq!(
                fs.bind(tcp, &"[::1]:0".parse::<SocketAddr>().unwrap().into()),
                Err(Errno::AFNOSUPPORT)
            );
            for open in [file, tcp] {
                fs.close(open).unwrap();
            }
            // The table has room for so many, and then says so.
            let mut made = Vec::new();
            let full = loop {
                match fs.socket(AF_INET6, SOCK_DGRAM, 0) {
                    Ok(socket) => made.push(socket),
                    Err(errno) => break errno,
                }
            };
            assert_eq!((full, fs.socketpair(AF_UNIX, SOCK_STREAM, 0)), (Errno::MFILE, Err(Errno::MFILE)));
            let count = made.len();
            made.into_iter().for_each(|socket| fs.close(socket).unwrap());
            count
        });
        assert!(files > 50, "{files}");
    });
}

#[test]
fn calls_that_do_not_wait() {
    everywhere(|session| {
        once(session, |fs| {
            let mut bytes = [0; 16];
            let (listener, address) = listening(fs);
            let quick = fs.socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0).unwrap();
            match fs.connect(quick, &address.into()) {
                Ok(()) | Err(Errno::INPROGRESS) => {}
                other => panic!("{other:?}"),
            }
            let mut all = [PollFd { fd: quick.0.cast_signed(), events: POLLOUT, revents: 0 }];
            assert_eq!((fs.poll(&mut all, 5_000), all[0].revents), (Ok(1), POLLOUT));
            assert_eq!(fs.getsockopt(quick, SOL_SOCKET, SO_ERROR, &mut bytes), Ok(4));
            assert_eq!(bytes[..4], [0; 4]);
            assert_eq!(fs.recv(quick, &mut bytes, 0), Err(Errno::AGAIN));
            let other = fs.accept4(listener, None, SOCK_NONBLOCK).unwrap();
            assert_eq!(fs.recv(other, &mut bytes, 0), Err(Errno::AGAIN));
            assert_eq!(fs.read(other, &mut bytes), Err(Errno::AGAIN));
            // Fills the way there: what was taken is counted, and then nothing is.
            let large = vec![1; 8 << 20];
            let sent = fs.send(quick, &large, 0).unwrap();
            assert!((1..large.len()).contains(&sent), "{sent}");
            fs.close(other).unwrap();
            let mut all = [PollFd { fd: quick.0.cast_signed(), events: POLLIN, revents: 0 }];
            assert_eq!(fs.poll(&mut all, 5_000), Ok(1));
            assert_eq!(all[0].revents & (POLLIN | POLLHUP), POLLIN | POLLHUP);
            let silent = fs.socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0).unwrap();
            fs.bind(silent, &LOCAL.into()).unwrap();
            fs.listen(silent, 1).unwrap();
            assert_eq!(fs.accept(silent, None), Err(Errno::AGAIN));
            // Those that have no place in its queue are not waited for.
            let address = fs.getsockname(silent).unwrap();
            let connecting = [(); 4].map(|()| {
                let socket = fs.socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0).unwrap();
                (socket, fs.connect(socket, &address))
            });
            assert_eq!(connecting[3].1, Err(Errno::INPROGRESS));
            connecting.into_iter().for_each(|(socket, _)| fs.close(socket).unwrap());
            for open in [listener, quick, silent] {
                fs.close(open).unwrap();
            }
        });
    });
}

/// A socket of the host's is one for kernels.
#[test]
fn sockets_of_the_host() {
    everywhere(|session| {
        let listener = TcpListener::bind(LOCAL).unwrap();
        let address = listener.local_addr().unwrap();
        let socket = session.register_file(OwnedFd::from(listener)).unwrap();
        let client = thread::spawn(move || {
            // A kernel that waits for it.
            thread::sleep(Duration::from_millis(20));
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"hello").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut came = Vec::new();
            stream.read_to_end(&mut came).unwrap();
            assert_eq!(came, b"hello");
        });
        once(session, |fs| {
            let connection = fs.accept(socket, None).unwrap();
            assert_eq!(echo(fs, connection), 5);
        });
        client.join().unwrap();
        session.unregister_file(socket).unwrap();
    });
}

/// Registered memory is sent from and received into in place.
#[test]
#[expect(unsafe_code, reason = "parts of a registered buffer")]
fn registered_memory_is_used_in_place() {
    everywhere(|session| {
        let buffer = session.register_buffer(1 << 20).unwrap();
        once(session, |fs| {
            // SAFETY:
            // - a part of its own, used by this lane alone
            let part = |at| unsafe { buffer.part(at, 500_000) };
            let (from, into) = (part(0), part(500_000));
            from.copy_from_slice(&text(500_000, 1));
            let [one, other] = fs.socketpair(AF_UNIX, SOCK_STREAM, 0).unwrap();
            let (mut sent, mut came) = (0, 0);
            while came < into.len() {
                match fs.send(one, &from[sent..], MSG_DONTWAIT) {
                    Ok(count) => sent += count,
                    Err(errno) => assert!(errno == Errno::AGAIN || sent == from.len(), "{errno}"),
                }
                came += fs.recv(other, &mut into[came..], 0).unwrap();
            }
            assert!(from == into);
        });
    });
}

/// More lanes wait than the ring has slots, each for a peer that comes when all wait.
#[test]
fn more_lanes_wait_than_there_are_slots() {
    for mode in MODES {
        let options = CpuOptions { width: 32, resident_warps: 64, ..CpuOptions::default() };
        let Ok(mut session) = small().files(1024).mode(mode).cpu_with(options) else {
            skip("more_lanes_wait_than_there_are_slots", mode);
            continue;
        };
        let (near, far): (Vec<_>, Vec<_>) = (0..400).map(|_| UnixStream::pair().unwrap()).unzip();
        let near: Vec<u32> =
            near.into_iter().map(|end| session.register_file(OwnedFd::from(end)).unwrap().0).collect();
        let arrived = DeviceWord::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                while arrived.observe() < 400 {
                    thread::sleep(Duration::from_millis(1));
                }
                for far in &far {
                    (&mut &*far).write_all(b"now").unwrap();
                }
            });
            session
                .run(Grid { blocks: 13, threads: 32 }, |fs: Fs| {
                    let Some(socket) = near.get(warp::global_thread() as usize) else { return };
                    arrived.fetch_add(1);
                    let mut bytes = [0; 3];
                    assert_eq!(fs.recv(Descriptor(*socket), &mut bytes, MSG_WAITALL), Ok(3));
                    assert_eq!(&bytes, b"now");
                })
                .unwrap();
        });
    }
}
