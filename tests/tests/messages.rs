//! Messages in several pieces of memory, `sendmsg` and `recvmsg`, in each mode and warp width: what arrives where, what is cut, wrong use; and in a
//! sandbox.
#![expect(unsafe_code, reason = "sends a descriptor as the C library does")]

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use gpufs_device::file::{Descriptor, IOV_MAX, IoSlice, IoSliceMut, O_RDONLY};
use gpufs_device::socket::{
    AF_INET, AF_UNIX, MSG_CTRUNC, MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC, MSG_WAITALL, Received, SHUT_WR,
    SOCK_DGRAM, SOCK_STREAM, SocketAddress,
};
use gpufs_device::{Errno, Fs};
use gpufs_host::{CpuOptions, Sandbox, Session, Sockets};
use gpufs_tests::{MODES, each, once, skip, small};

const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Calls `body` with a session in each mode, of warps of each width, without a sandbox and in one of pairs and of UDP on this machine.
fn everywhere(name: &str, mut body: impl FnMut(&mut Session)) {
    for mode in MODES {
        for width in [1, 32] {
            for confined in [false, true] {
                let options = CpuOptions { width, ..CpuOptions::default() };
                let mut builder = small().mode(mode);
                if confined {
                    let sockets = Sockets::new().pairs().udp_at(LOCAL).udp_to(LOCAL);
                    builder = builder.sandbox(Sandbox::new().sockets(sockets));
                }
                match builder.cpu_with(options) {
                    Ok(mut session) => body(&mut session),
                    Err(refused) => skip(&format!("{name}: {mode}, {width}, {confined}"), refused),
                }
            }
        }
    }
}

fn text(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|at| ((at * 7 + seed * 13) % 251) as u8).collect()
}

/// Pieces of one byte, none, and many, which begin and end elsewhere on the two sides.
#[test]
fn pieces_of_a_stream_arrive_in_order() {
    everywhere("pieces_of_a_stream_arrive_in_order", |session| {
        let pairs: Vec<[Descriptor; 2]> =
            each(session, 4, |fs, _| fs.socketpair(AF_UNIX, SOCK_STREAM, 0).unwrap());
        each(session, 8, |fs, lane| {
            let ([one, two], seed) = (pairs[lane as usize / 2], lane as usize / 2);
            let wanted = text(90_000 + seed, seed);
            if lane % 2 == 0 {
                let (head, rest) = wanted.split_at(1);
                let (middle, tail) = rest.split_at(40_000);
                let pieces = [head, &[], middle, tail].map(IoSlice::new);
                assert_eq!(fs.sendmsg(one, &pieces, 0, None), Ok(wanted.len()));
                fs.shutdown(one, SHUT_WR).unwrap();
                fs.close(one).unwrap();
            } else {
                let mut parts = [vec![0; 30_000], vec![], vec![0; 7], vec![0; 100_000]];
                let mut pieces = parts.each_mut().map(|part| IoSliceMut::new(part));
                let came = fs.recvmsg(two, &mut pieces, MSG_WAITALL, None).unwrap();
                assert_eq!(came.bytes, wanted.len());
                let all = parts.concat();
                assert!(all[..wanted.len()] == wanted && all[wanted.len()..].iter().all(|byte| *byte == 0));
                let mut one = [0];
                let end = fs.recvmsg(two, &mut [IoSliceMut::new(&mut one)], 0, None);
                assert_eq!(end.map(|came| came.bytes), Ok(0));
                fs.close(two).unwrap();
            }
        });
    });
}

#[test]
fn messages_have_addresses_and_say_what_was_cut() {
    everywhere("messages_have_addresses_and_say_what_was_cut", |session| {
        let host = UdpSocket::bind(LOCAL).unwrap();
        host.set_read_timeout(Some(Duration::from_secs(100))).unwrap();
        let peer = host.local_addr().unwrap();
        let (socket, own) = once(session, |fs| {
            let socket = fs.socket(AF_INET, SOCK_DGRAM, 0).unwrap();
            fs.bind(socket, &LOCAL.into()).unwrap();
            let own = fs.getsockname(socket).unwrap().ip().unwrap();
            let pieces = [&b"one"[..], b" ", b"message"].map(IoSlice::new);
            assert_eq!(fs.sendmsg(socket, &pieces, 0, Some(&peer.into())), Ok(11));
            assert_eq!(fs.sendmsg(socket, &[], 0, Some(&peer.into())), Ok(0));
            (socket, own)
        });
        let mut bytes = [0; 32];
        assert_eq!(host.recv_from(&mut bytes).unwrap(), (11, own));
        assert_eq!(&bytes[..11], b"one message");
        assert_eq!(host.recv_from(&mut bytes).unwrap(), (0, own));
        host.send_to(b"0123456789", own).unwrap();
        host.send_to(b"x", own).unwrap();
        once(session, |fs| {
            let mut of = SocketAddress::default();
            let (mut head, mut tail) = ([0; 3], [0; 4]);
            let mut receive = |flags| {
                let mut pieces = [IoSliceMut::new(&mut head), IoSliceMut::new(&mut tail)];
                fs.recvmsg(socket, &mut pieces, flags, Some(&mut of))
            };
            assert_eq!(receive(MSG_PEEK), Ok(Received { bytes: 7, flags: MSG_TRUNC }));
            assert_eq!(receive(MSG_TRUNC).map(|came| came.bytes), Ok(10));
            assert_eq!(receive(0), Ok(Received { bytes: 1, flags: 0 }));
            assert_eq!(receive(MSG_DONTWAIT), Err(Errno::AGAIN));
            assert_eq!((of.ip(), &head, &tail), (Some(peer), b"x12", b"3456"));
            fs.close(socket).unwrap();
        });
    });
}

#[test]
fn wrong_use_of_messages() {
    everywhere("wrong_use_of_messages", |session| {
        once(session, |fs| {
            let mut bytes = [0; 8];
            let [one, two] = fs.socketpair(AF_UNIX, SOCK_DGRAM, 0).unwrap();
            let file = fs.pipe().unwrap()[0];
            let from = [IoSlice::new(b"abc")];
            let mut into = |socket, flags| {
                fs.recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], flags, None).map(|came| came.bytes)
            };
            assert_eq!(fs.sendmsg(Descriptor(50), &from, 0, None), Err(Errno::BADF));
            assert_eq!(into(Descriptor(50), 0), Err(Errno::BADF));
            assert_eq!(fs.sendmsg(file, &from, 0, None), Err(Errno::NOTSOCK));
            assert_eq!(into(file, 0), Err(Errno::NOTSOCK));
            assert_eq!(into(one, MSG_DONTWAIT), Err(Errno::AGAIN));
            // As many pieces as there may be, and one more; more bytes than a message has.
            let many = [IoSlice::new(b"x"); IOV_MAX + 1];
            assert_eq!(fs.sendmsg(one, &many[1..], 0, None), Ok(IOV_MAX));
            assert_eq!(fs.sendmsg(one, &many, 0, None), Err(Errno::MSGSIZE));
            let large = vec![0; 40_000];
            assert_eq!(fs.sendmsg(one, &[IoSlice::new(&large); 2], 0, None), Err(Errno::MSGSIZE));
            let mut none: Vec<IoSliceMut<'_>> = (0..=IOV_MAX).map(|_| IoSliceMut::new(&mut [])).collect();
            assert_eq!(fs.recvmsg(two, &mut none, 0, None), Err(Errno::MSGSIZE));
            assert_eq!(into(two, 0), Ok(8));
            let udp = fs.socket(AF_INET, SOCK_DGRAM, 0).unwrap();
            assert_eq!(fs.sendmsg(udp, &from, 0, None), Err(Errno::DESTADDRREQ));
            fs.close(two).unwrap();
            assert_eq!(fs.sendmsg(one, &from, 0, None), Err(Errno::CONNREFUSED));
            for open in [one, file, udp] {
                fs.close(open).unwrap();
            }
        });
    });
}

/// A descriptor that comes with a message reaches nobody, and what waits for nothing ends at the session's limit.
#[test]
fn what_comes_beside_the_bytes_is_dropped() {
    for mode in MODES {
        let Ok(mut session) = small().mode(mode).wait_limit(Duration::from_millis(200)).cpu() else {
            skip("what_comes_beside_the_bytes_is_dropped", mode);
            continue;
        };
        let (near, far) = UnixStream::pair().unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        send_descriptor(&far, reader.as_raw_fd());
        drop(reader);
        let socket = session.register_file(OwnedFd::from(near)).unwrap();
        once(&mut session, |fs: Fs| {
            let mut bytes = [0; 8];
            let came = fs.recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], 0, None).unwrap();
            assert_eq!((came.bytes, came.flags & MSG_CTRUNC, bytes[0]), (1, MSG_CTRUNC, b'd'), "{mode}");
            let silent = fs.recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], 0, None);
            assert_eq!(silent, Err(Errno::TIMEDOUT), "{mode}");
            assert_eq!(fs.sendmsg(socket, &[IoSlice::new(b"y"), IoSlice::new(b"z")], 0, None), Ok(2));
            assert_eq!(fs.open(c"/nothing/there", O_RDONLY, 0), Err(Errno::NOENT));
        });
        // Nobody has its reading end any more.
        let broken = std::io::Write::write(&mut (&writer), b"x").unwrap_err();
        assert_eq!(broken.kind(), std::io::ErrorKind::BrokenPipe, "{mode}");
        let mut came = [0; 4];
        assert_eq!(std::io::Read::read(&mut (&far), &mut came).unwrap(), 2, "{mode}");
    }
}

/// Sends one byte with a descriptor (`SCM_RIGHTS`).
fn send_descriptor(socket: &UnixStream, descriptor: i32) {
    let mut byte = *b"d";
    let mut piece = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // Length, level and kind of the one part, and the descriptor.
    let mut control = [20_u64, 1 | 1 << 32, u64::from(descriptor.cast_unsigned())];
    // SAFETY:
    // - all-zero is a header
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut piece, 1);
    (header.msg_control, header.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control));
    // SAFETY:
    // - header, piece and control are alive, and as long as they say
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, 0) };
    assert_eq!(sent, 1, "{}", std::io::Error::last_os_error());
}

/// With `MSG_TRUNC` a message says how long it was, and what fits is there.
#[test]
fn what_is_cut_is_counted() {
    everywhere("what_is_cut_is_counted", |session| {
        once(session, |fs| {
            let [one, two] = fs.socketpair(AF_UNIX, SOCK_DGRAM, 0).unwrap();
            assert_eq!(fs.send(one, b"0123456789", 0), Ok(10));
            let mut bytes = [7; 4];
            assert_eq!((fs.recv(two, &mut bytes, MSG_TRUNC), &bytes), (Ok(10), b"0123"));
            fs.close(one).unwrap();
            fs.close(two).unwrap();
        });
    });
}

/// Registered memory goes to the system as it is: one operation sends what a socket takes of it, and one receives it.
#[test]
fn registered_memory_is_one_operation() {
    everywhere("registered_memory_is_one_operation", |session| {
        let buffer = session.register_buffer(1 << 20).unwrap();
        let [one, two] = once(session, |fs| fs.socketpair(AF_UNIX, SOCK_STREAM, 0).unwrap());
        let before = session.statistics().total().operations;
        once(session, |fs| {
            // SAFETY:
            // - a part of its own, used by this lane alone
            let part = |at| unsafe { buffer.part(at, 40_000) };
            let (from, into) = (part(0), part(40_000));
            from.copy_from_slice(&text(40_000, 1));
            assert_eq!(fs.send(one, from, MSG_DONTWAIT), Ok(40_000));
            assert_eq!(fs.recv(two, into, MSG_DONTWAIT), Ok(40_000));
            assert!(from == into);
        });
        assert_eq!(session.statistics().total().operations - before, 2);
    });
}
