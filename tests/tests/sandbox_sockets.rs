//! Sockets that a sandbox names (`Sandbox::sockets`): they work as without one, in each mode; what is not named is refused.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use gpufs_device::aio::Pending;
use gpufs_device::file::Descriptor;
use gpufs_device::socket::{
    AF_INET, AF_INET6, AF_UNIX, MSG_DONTWAIT, POLLIN, POLLNVAL, PollFd, SHUT_WR, SO_ERROR, SO_REUSEADDR,
    SOCK_DGRAM, SOCK_NONBLOCK, SOCK_SEQPACKET, SOCK_STREAM, SOL_SOCKET, SocketAddress,
};
use gpufs_device::{Errno, Fs};
use gpufs_host::ring::Mode;
use gpufs_host::session::OpenError;
use gpufs_host::{Sandbox, Session, Sockets};
use gpufs_tests::{MODES, each, once, skip, small};

const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const NOTHING: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// A session in each mode that works here, in a sandbox with these sockets.
fn everywhere(test: &str, sockets: &Sockets, mut body: impl FnMut(&mut Session, Mode)) {
    for mode in MODES {
        match small().mode(mode).sandbox(Sandbox::new().sockets(sockets.clone())).cpu() {
            Ok(mut session) => body(&mut session, mode),
            Err(refused @ (OpenError::Ring(_) | OpenError::Sandbox(_))) => {
                skip(&format!("{test}, {mode}"), refused);
            }
            Err(other) => panic!("{mode}: {other}"),
        }
    }
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

#[test]
fn a_kernel_serves_where_it_is_named() {
    let sockets = Sockets::new().tcp_at(LOCAL);
    everywhere("a_kernel_serves_where_it_is_named", &sockets, |session, _| {
        let (socket, address) = once(session, |fs| {
            let socket = fs.socket(AF_INET, SOCK_STREAM, 0).unwrap();
            fs.setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &1_i32.to_ne_bytes()).unwrap();
            // Without an address it would listen on each interface.
            assert_eq!(fs.listen(socket, 8), Err(Errno::ACCES));
            assert_eq!(fs.bind(socket, &NOTHING.into()), Err(Errno::ACCES));
            fs.bind(socket, &LOCAL.into()).unwrap();
            fs.listen(socket, 64).unwrap();
            (socket, fs.getsockname(socket).unwrap().ip().unwrap())
        });
        const LANES: u32 = 4;
        let clients: Vec<_> = (0..LANES)
            .map(|client| {
                thread::spawn(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    let wanted: Vec<u8> = (0..20_000 + client).map(|at| (at % 251) as u8).collect();
                    let (sent, mut writer) = (wanted.clone(), stream.try_clone().unwrap());
                    let writes = thread::spawn(move || {
                        writer.write_all(&sent).unwrap();
                        writer.shutdown(std::net::Shutdown::Write).unwrap();
                    });
                    let mut came = Vec::new();
                    stream.read_to_end(&mut came).unwrap();
                    writes.join().unwrap();
                    assert!(came == wanted, "client {client}");
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
        assert_eq!(sums.iter().sum::<usize>(), 4 * 20_000 + 6);
        once(session, |fs| fs.close(socket)).unwrap();
    });
}

#[test]
fn a_kernel_connects_with_whom_it_may() {
    let named = TcpListener::bind(LOCAL).unwrap();
    let other = TcpListener::bind(LOCAL).unwrap();
    other.set_nonblocking(true).unwrap();
    let (peer, stranger) = (named.local_addr().unwrap(), other.local_addr().unwrap());
    let sockets = Sockets::new().tcp_to(peer);
    everywhere("a_kernel_connects_with_whom_it_may", &sockets, |session, _| {
        let served = named.try_clone().unwrap();
        let server = thread::spawn(move || {
            let (mut connection, _) = served.accept().unwrap();
            let mut came = String::new();
            connection.read_to_string(&mut came).unwrap();
            connection.write_all(came.to_uppercase().as_bytes()).unwrap();
        });
        once(session, |fs| {
            let socket = fs.socket(AF_INET, SOCK_STREAM, 0).unwrap();
            // By another port, by Linux's name for this machine, by IPv6's form, by nothing.
            let mut far = stranger;
            far.set_ip("127.0.0.2".parse().unwrap());
            let mut anything = peer;
            anything.set_ip(NOTHING.ip());
            for address in [stranger, far, anything] {
                assert_eq!(fs.connect(socket, &address.into()), Err(Errno::ACCES), "{address}");
            }
            let none = SocketAddress::from_bytes(&[0; 16]).unwrap();
            assert_eq!(fs.connect(socket, &none), Err(Errno::ACCES));
            assert_eq!(fs.bind(socket, &LOCAL.into()), Err(Errno::ACCES));
            fs.connect(socket, &peer.into()).unwrap();
            assert_eq!(fs.getpeername(socket).unwrap().ip(), Some(peer));
            assert_eq!(fs.getsockopt(socket, SOL_SOCKET, SO_ERROR, &mut [0; 4]), Ok(4));
            assert_eq!(fs.send(socket, b"hello ", 0), Ok(6));
            assert_eq!(fs.write(socket, b"there"), Ok(5));
            fs.shutdown(socket, SHUT_WR).unwrap();
            let mut all = [PollFd { fd: socket.0.cast_signed(), events: POLLIN, revents: 0 }; 3];
            all[1].fd = 900;
            all[2].fd = -1;
            assert_eq!(fs.poll(&mut all[..1], -1), Ok(1));
            assert_eq!(fs.poll(&mut all, 0), Ok(2));
            assert_eq!([all[1].revents, all[2].revents], [POLLNVAL, 0]);
            let mut came = [0; 32];
            assert_eq!(fs.read(socket, &mut came), Ok(11));
            assert_eq!(&came[..11], b"HELLO THERE");
            fs.close(socket).unwrap();
        });
        server.join().unwrap();
        assert_eq!(other.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nobody came");
    });
}

#[test]
fn datagrams_go_to_whom_they_may() {
    let [named, other] = [(); 2].map(|()| UdpSocket::bind(LOCAL).unwrap());
    other.set_nonblocking(true).unwrap();
    named.set_read_timeout(Some(Duration::from_secs(100))).unwrap();
    let (peer, stranger) = (named.local_addr().unwrap(), other.local_addr().unwrap());
    let sockets = Sockets::new().udp_to(peer).udp_at(LOCAL);
    everywhere("datagrams_go_to_whom_they_may", &sockets, |session, _| {
        let (socket, own) = once(session, |fs| {
            let socket = fs.socket(AF_INET, SOCK_DGRAM, 0).unwrap();
            assert_eq!(fs.bind(socket, &NOTHING.into()), Err(Errno::ACCES));
            fs.bind(socket, &LOCAL.into()).unwrap();
            let own = fs.getsockname(socket).unwrap().ip().unwrap();
            assert_eq!(fs.sendto(socket, b"hidden", 0, &stranger.into()), Err(Errno::ACCES));
            assert_eq!(fs.connect(socket, &stranger.into()), Err(Errno::ACCES));
            assert_eq!(fs.sendto(socket, b"ping", 0, &peer.into()), Ok(4));
            (socket, own)
        });
        let mut came = [0; 16];
        assert_eq!(named.recv_from(&mut came).unwrap(), (4, own));
        named.send_to(b"pong", own).unwrap();
        once(session, |fs| {
            let (mut came, mut of) = ([0; 16], SocketAddress::default());
            assert_eq!(fs.recvfrom(socket, &mut came, 0, &mut of), Ok(4));
            assert_eq!((&came[..4], of.ip()), (&b"pong"[..], Some(peer)));
            assert_eq!(fs.recv(socket, &mut came, MSG_DONTWAIT), Err(Errno::AGAIN));
            fs.connect(socket, &peer.into()).unwrap();
            assert_eq!(fs.send(socket, b"again", 0), Ok(5));
            fs.close(socket).unwrap();
        });
        assert_eq!(named.recv(&mut came).unwrap(), 5);
        assert_eq!(other.recv(&mut came).unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nothing came");
    });
}

#[test]
fn pairs_reach_each_other_alone() {
    let scratch = gpufs_tests::Scratch::new("pairs");
    let stranger = std::os::unix::net::UnixDatagram::bind(scratch.path("stranger")).unwrap();
    stranger.set_nonblocking(true).unwrap();
    let address = SocketAddress::unix(scratch.c("stranger").as_bytes()).unwrap();
    everywhere("pairs_reach_each_other_alone", &Sockets::new().pairs(), |session, _| {
        for kind in [SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET] {
            once(session, |fs| {
                let [one, two] = fs.socketpair(AF_UNIX, kind | SOCK_NONBLOCK, 0).unwrap();
                assert_eq!(fs.recv(two, &mut [0; 8], 0), Err(Errno::AGAIN));
                assert_eq!(fs.send(one, b"x", 0), Ok(1));
                let mut all =
                    [one, two].map(|end| PollFd { fd: end.0.cast_signed(), events: POLLIN, revents: 0 });
                assert_eq!(fs.poll(&mut all, 1000), Ok(1));
                assert_eq!(fs.recv(two, &mut [0; 8], 0), Ok(1));
                // Waits for one of several until the time is over.
                assert_eq!(fs.poll(&mut all, 10), Ok(0));
                for refused in [
                    fs.sendto(one, b"x", 0, &address).map(drop),
                    fs.connect(one, &address),
                    fs.bind(one, &address),
                    fs.socket(AF_UNIX, kind, 0).map(drop),
                    fs.socket(AF_INET, SOCK_STREAM, 0).map(drop),
                ] {
                    assert_eq!(refused, Err(Errno::ACCES));
                }
                fs.close(one).unwrap();
                fs.close(two).unwrap();
            });
        }
        assert_eq!(stranger.recv(&mut [0; 8]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    });
}

/// Lanes of one warp wait for each other, and each is served while others wait: none keeps another from being served.
#[test]
fn lanes_are_each_others_peers() {
    everywhere("lanes_are_each_others_peers", &Sockets::new().pairs(), |session, _| {
        let pairs: Vec<[Descriptor; 2]> =
            once(session, |fs| (0..8).map(|_| fs.socketpair(AF_UNIX, SOCK_STREAM, 0).unwrap()).collect());
        let sums = each(session, 16, |fs, lane| {
            let [one, two] = pairs[lane as usize / 2];
            if lane % 2 == 0 {
                for byte in 0..20_u8 {
                    assert_eq!(fs.send(one, &[byte], 0), Ok(1));
                    assert_eq!(fs.recv(one, &mut [0], 0), Ok(1));
                }
                fs.shutdown(one, SHUT_WR).unwrap();
                0
            } else {
                let mut sum = 0;
                let mut byte = [0];
                while fs.recv(two, &mut byte, 0).unwrap() == 1 {
                    sum += u32::from(byte[0]);
                    assert_eq!(fs.send(two, &byte, 0), Ok(1));
                }
                sum
            }
        });
        assert_eq!(sums.iter().sum::<u32>(), 8 * 190);
    });
}

#[test]
fn other_families_and_protocols_are_refused() {
    let anyone = SocketAddr::from(([0; 16], 0));
    let sockets = Sockets::new().pairs().tcp_to(NOTHING).tcp_to(anyone).udp_to(NOTHING).tcp_at(NOTHING);
    everywhere("other_families_and_protocols_are_refused", &sockets, |session, _| {
        once(session, |fs| {
            const RAW: u32 = 3;
            const ICMP: u32 = 1;
            const MPTCP: u32 = 262;
            for (family, kind, protocol) in [
                (AF_UNIX, SOCK_STREAM, 0),
                (AF_INET, RAW, ICMP),
                (AF_INET, SOCK_DGRAM, ICMP),
                (AF_INET, SOCK_STREAM, MPTCP),
                (AF_INET6, SOCK_SEQPACKET, 132),
                (16, RAW, 0),
                (17, RAW, 0),
                (38, SOCK_SEQPACKET, 0),
                (40, SOCK_STREAM, 0),
            ] {
                let made = fs.socket(family, kind, protocol).map(drop);
                assert_eq!(made, Err(Errno::ACCES), "{family} {kind} {protocol}");
            }
            let socket = fs.socket(AF_INET6, SOCK_STREAM, 0).unwrap();
            // A filter, an upper protocol, an interface, what makes closing wait, a mark.
            for (level, name) in [(1, 26), (6, 31), (1, 25), (1, 13), (1, 36), (6, 30), (6, 19)] {
                let set = fs.setsockopt(socket, level, name, &[0; 16]);
                assert_eq!(set, Err(Errno::ACCES), "{level} {name}");
            }
            fs.close(socket).unwrap();
        });
    });
}

/// The kernel's rings take no operation of sockets in a sandbox: what is started there is refused, and nothing is lost; a poll is not refused.
#[test]
#[expect(unsafe_code, reason = "starts into a registered buffer")]
fn transfers_that_are_started_are_refused() {
    let sockets = Sockets::new().pairs();
    everywhere("transfers_that_are_started_are_refused", &sockets, |session, mode| {
        let buffer = session.register_buffer(4096).unwrap();
        once(session, |fs| {
            let [one, two] = fs.socketpair(AF_UNIX, SOCK_STREAM, 0).unwrap();
            assert_eq!(fs.send(two, b"text", 0), Ok(4));
            // SAFETY:
            // - the only part, used by this lane alone, and its bytes are nobody's concern
            let part = unsafe { buffer.part(0, 64) };
            let bytes = part.as_mut_ptr();
            // SAFETY:
            // - registered memory, which nobody looks at
            let receives = unsafe { fs.start_recv(one, bytes, 64, 0) };
            // SAFETY:
            // - as above
            let waits = unsafe { fs.start_recv_when_ready(one, bytes, 64, 0) };
            // SAFETY:
            // - as above
            let sends = unsafe { fs.start_send(one, bytes, 64, 0) };
            let count = |started: Result<Pending, Errno>| started.unwrap().wait().map(|done| done.count());
            let (received, when_ready, sent) = (count(receives), count(waits), count(sends));
            assert_eq!(when_ready, Err(Errno::ACCES), "{mode}");
            if mode == Mode::Threads {
                assert_eq!((received, sent), (Ok(4), Ok(64)));
            } else {
                assert_eq!((received, sent), (Err(Errno::ACCES), Err(Errno::ACCES)), "{mode}");
                assert_eq!(count(fs.start_poll(one, POLLIN)), Ok(1), "{mode}");
                assert_eq!(fs.recv(one, &mut [0; 8], 0), Ok(4), "{mode}");
            }
        });
    });
}
