//! Sockets: of kinds that the sandbox does not name, to those whom it does not name, with what would carry more than bytes; by services, and by
//! entries of io_uring that no ring in a sandbox takes.
#![expect(unsafe_code, reason = "what a hostile kernel does")]

use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;

use gpufs_core::abi::{AF_INET, AF_INET6, AF_UNIX, PollFd, SocketAddress, Sqe, message_header};

use super::races::race;
use super::{Attempt, Expected, Seen, World};

/// Where in the session's memory: an address, its length, a message's header, its bytes.
const NAME: usize = 0x1000;
const HEADER: usize = 0x2000;
const BYTES: usize = 0x3000;
/// Entries of io_uring.
const SENDMSG: u8 = 9;
const CONNECT: u8 = 16;
const SEND: u8 = 26;
const SOCKET: u8 = 45;
const BIND: u8 = 56;
const LISTEN: u8 = 57;
const STREAM: u32 = 1;
const DGRAM: u32 = 2;

fn put(world: &World, address: SocketAddress) -> (u64, u32) {
    (world.text(NAME, address.as_bytes()), address.len() as u32)
}
fn friend(world: &World) -> (u64, u32) {
    put(world, world.scene.friends.0.local_addr().expect("bound").into())
}
fn stranger(world: &World) -> (u64, u32) {
    put(world, world.scene.strangers.0.local_addr().expect("bound").into())
}
fn far_reader(world: &World) -> (u64, u32) {
    put(world, world.scene.strangers.1.local_addr().expect("bound").into())
}
fn letters(world: &World) -> (u64, u32) {
    let path = world.scene.path("outside/letters");
    put(world, SocketAddress::unix(path.as_os_str().as_bytes()).expect("a short path"))
}

/// A socket that a service makes; what it said instead.
fn made(world: &mut World, family: u16, kind: u32) -> Result<i32, Seen> {
    match world.submit_to_services(&[Sqe::socket(family.into(), kind, 0)])[0] {
        Some(number @ 0..) => Ok(number),
        other => Err(Seen::reached(other)),
    }
}
/// A pair that a service makes.
fn pair(world: &mut World, kind: u32) -> Result<[i32; 2], Seen> {
    match world.submit_to_services(&[Sqe::socketpair(AF_UNIX.into(), kind, 0)])[0] {
        Some(one @ 0..) => match world.submit_to_services(&[Sqe::other_end(one)])[0] {
            Some(two @ 0..) => Ok([one, two]),
            other => Err(Seen::reached(other)),
        },
        other => Err(Seen::reached(other)),
    }
}
/// Tries `attack` on a socket that was made, and closes that.
fn on(made: Result<i32, Seen>, world: &mut World, attack: impl FnOnce(&mut World, i32) -> Seen) -> Seen {
    match made {
        Ok(socket) => {
            let seen = attack(world, socket);
            let _ = world.submit_to_services(&[Sqe::close(socket)]);
            seen
        }
        Err(seen) => seen,
    }
}

/// The address of a message's header, which is as the library makes them.
fn message(world: &World, name: (u64, u32), piece: (u64, u64)) -> u64 {
    let at = world.area.base + HEADER as u64;
    let words = message_header(at, name, piece);
    world.text(HEADER, &words.map(u64::to_ne_bytes).concat())
}

type To = fn(&World) -> (u64, u32);

fn kinds(attempts: &mut Vec<Attempt>) {
    let all: [(&str, u16, u32, u32, Expected); 9] = [
        ("Unix", AF_UNIX, STREAM, 0, Expected::Harm),
        ("Unix, messages", AF_UNIX, DGRAM, 0, Expected::Harm),
        ("IPv6", AF_INET6, 5, 132, Expected::Error),
        ("raw", AF_INET, 3, 1, Expected::Error),
        ("ping", AF_INET, DGRAM, 1, Expected::Error),
        ("MPTCP", AF_INET, STREAM, 262, Expected::Error),
        ("netlink", 16, 3, 0, Expected::Harm),
        ("packet", 17, 3, 0, Expected::Error),
        ("vsock", 40, STREAM, 0, Expected::Error),
    ];
    for (name, family, kind, protocol, expected) in all {
        attempts.push(Attempt::new("a socket of a kind that is not named", name, expected, move |world| {
            let entry = Sqe::socket(family.into(), kind, protocol);
            Seen::reached(world.submit_to_services(&[entry])[0])
        }));
        attempts.push(Attempt::new("an entry SOCKET", name, Expected::Error, move |world| {
            let entry =
                Sqe { opcode: SOCKET, fd: family.into(), off: kind.into(), len: protocol, ..Sqe::default() };
            Seen::reached(world.submit(&[entry])[0])
        }));
    }
    attempts.push(Attempt::new("an entry SOCKET", "of the named kind", Expected::Harm, |world| {
        let entry = Sqe { opcode: SOCKET, fd: AF_INET.into(), off: STREAM.into(), ..Sqe::default() };
        Seen::reached(world.submit(&[entry])[0])
    }));
}

fn others(attempts: &mut Vec<Attempt>) {
    let row = "connecting with whom the sandbox does not name";
    attempts.push(Attempt::new(row, "TCP", Expected::Harm, |world| {
        on(made(world, AF_INET, STREAM), world, |world, socket| {
            let (at, bytes) = stranger(world);
            Seen::reached(world.submit_to_services(&[Sqe::connect(socket, at, bytes)])[0])
        })
    }));
    attempts.push(Attempt::new(row, "in IPv6's form", Expected::Error, |world| {
        on(made(world, AF_INET6, STREAM), world, |world, socket| {
            let port = world.scene.strangers.0.local_addr().expect("bound").port();
            let ip = std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped();
            let (at, bytes) = put(world, std::net::SocketAddr::from((ip, port)).into());
            Seen::reached(world.submit_to_services(&[Sqe::connect(socket, at, bytes)])[0])
        })
    }));
    attempts.push(Attempt::new(row, "messages", Expected::Harm, |world| {
        on(made(world, AF_INET, DGRAM), world, |world, socket| {
            let (at, bytes) = far_reader(world);
            Seen::reached(world.submit_to_services(&[Sqe::connect(socket, at, bytes)])[0])
        })
    }));
    attempts.push(Attempt::new(row, "a pair's end", Expected::Harm, |world| {
        on(pair(world, DGRAM).map(|ends| ends[0]), world, |world, socket| {
            let (at, bytes) = letters(world);
            Seen::reached(world.submit_to_services(&[Sqe::connect(socket, at, bytes)])[0])
        })
    }));
}

fn messages(attempts: &mut Vec<Attempt>) {
    let ways: [(&str, u16, u32, To); 3] = [
        ("UDP", AF_INET, DGRAM, far_reader),
        ("Unix, from a pair", AF_UNIX, DGRAM, letters),
        // `MSG_FASTOPEN` connects.
        ("TCP, which connects", AF_INET, STREAM, stranger),
    ];
    for (name, family, kind, to) in ways {
        let flags = if kind == STREAM { 0x2000_0000 } else { 0 };
        let socket = move |world: &mut World| {
            if family == AF_UNIX { pair(world, kind).map(|ends| ends[0]) } else { made(world, family, kind) }
        };
        let row = "a message to whom the sandbox does not name";
        attempts.push(Attempt::new(row, name, Expected::Harm, move |world| {
            on(socket(world), world, |world, socket| {
                let (name, piece) = (to(world), (world.text(BYTES, b"hello"), 5));
                let header = message(world, name, piece);
                Seen::reached(world.submit_to_services(&[Sqe::sendmsg(socket, header, flags)])[0])
            })
        }));
        let row = "an entry SENDMSG to whom the sandbox does not name";
        attempts.push(Attempt::new(row, name, Expected::Error, move |world| {
            on(socket(world), world, |world, socket| {
                let (name, piece) = (to(world), (world.text(BYTES, b"hello"), 5));
                let addr = message(world, name, piece);
                let entry =
                    Sqe { opcode: SENDMSG, fd: socket, addr, len: 1, op_flags: flags, ..Sqe::default() };
                Seen::reached(world.submit(&[entry])[0])
            })
        }));
    }
    attempts.push(Attempt::new("an entry SEND with an address", "UDP", Expected::Error, |world| {
        on(made(world, AF_INET, DGRAM), world, |world, socket| {
            let (name, bytes) = far_reader(world);
            let addr = world.text(BYTES, b"hello");
            // The address is in `addr2`, its length in the low half of the last word but one.
            let entry = Sqe {
                opcode: SEND,
                fd: socket,
                addr,
                len: 5,
                off: name,
                file_index: bytes,
                ..Sqe::default()
            };
            Seen::reached(world.submit(&[entry])[0])
        })
    }));
    for (name, to) in [("to a stranger", stranger as To), ("to a friend", friend)] {
        attempts.push(Attempt::new("an entry CONNECT", name, Expected::Error, move |world| {
            on(made(world, AF_INET, STREAM), world, |world, socket| {
                let (addr, bytes) = to(world);
                let entry = Sqe { opcode: CONNECT, fd: socket, addr, off: bytes.into(), ..Sqe::default() };
                Seen::reached(world.submit(&[entry])[0])
            })
        }));
    }
}

fn places(attempts: &mut Vec<Attempt>) {
    let here = |world: &World, ip: [u8; 4]| put(world, std::net::SocketAddr::from((ip, 0)).into());
    for (name, ip) in [("this machine", [127, 0, 0, 1]), ("each interface", [0; 4])] {
        attempts.push(Attempt::new("an address that is not named", name, Expected::Harm, move |world| {
            on(made(world, AF_INET, STREAM), world, |world, socket| {
                let (at, bytes) = here(world, ip);
                Seen::reached(world.submit_to_services(&[Sqe::bind(socket, at, bytes)])[0])
            })
        }));
        attempts.push(Attempt::new("an entry BIND", name, Expected::Error, move |world| {
            on(made(world, AF_INET, STREAM), world, |world, socket| {
                let (addr, bytes) = here(world, ip);
                let entry = Sqe { opcode: BIND, fd: socket, addr, off: bytes.into(), ..Sqe::default() };
                Seen::reached(world.submit(&[entry])[0])
            })
        }));
    }
    attempts.push(Attempt::new("listening without an address", "", Expected::Harm, |world| {
        on(made(world, AF_INET, STREAM), world, |world, socket| {
            Seen::reached(world.submit_to_services(&[Sqe::listen(socket, 1)])[0])
        })
    }));
    attempts.push(Attempt::new("an entry LISTEN", "", Expected::Error, |world| {
        on(made(world, AF_INET, STREAM), world, |world, socket| {
            let entry = Sqe { opcode: LISTEN, fd: socket, len: 1, ..Sqe::default() };
            Seen::reached(world.submit(&[entry])[0])
        })
    }));
    // A filter, what stands above the protocol, an interface, waiting at the close, connecting with the first bytes, repair.
    for (level, name) in [(1, 26), (6, 31), (1, 25), (1, 13), (6, 30), (6, 19)] {
        let variant = format!("{level} {name}");
        attempts.push(Attempt::new(
            "an option that is not for kernels",
            variant,
            Expected::Error,
            move |world| {
                on(made(world, AF_INET, STREAM), world, |world, socket| {
                    let at = world.text(BYTES, &[1; 16]);
                    Seen::reached(
                        world.submit_to_services(&[Sqe::setsockopt(socket, level, name, at, 16)])[0],
                    )
                })
            },
        ));
    }
}

/// What a pair's ends would carry to and from where a kernel may not look.
fn memory(attempts: &mut Vec<Attempt>) {
    let row = "memory of the host by a pair";
    attempts.push(Attempt::new(row, "send", Expected::Harm, |world| {
        on(pair(world, STREAM).map(|ends| ends[0]), world, |world, socket| {
            let secret = world.scene.secret.address();
            Seen::reached(world.submit_to_services(&[Sqe::send(socket, secret, 16, 0x40)])[0])
        })
    }));
    attempts.push(Attempt::new(row, "sendmsg", Expected::Harm, |world| {
        on(pair(world, STREAM).map(|ends| ends[0]), world, |world, socket| {
            let header = message(world, (0, 0), (world.scene.secret.address(), 16));
            Seen::reached(world.submit_to_services(&[Sqe::sendmsg(socket, header, 0x40)])[0])
        })
    }));
    attempts.push(Attempt::new(row, "poll", Expected::Error, |world| {
        let entry = Sqe::poll_all(world.scene.memory.address(), 4);
        Seen::reached(world.submit_to_services(&[entry])[0])
    }));
    attempts.push(Attempt::new("a descriptor by a message", "", Expected::Harm, |world| {
        on(pair(world, STREAM).map(|ends| ends[0]), world, |world, socket| {
            let header = message(world, (0, 0), (world.text(BYTES, b"hello"), 5));
            // `SCM_RIGHTS`, with the number of a file of the kernel's own.
            let control = [20_u64, 1 | 1 << 32, u64::from(world.own.cast_unsigned())];
            let at = world.text(BYTES + 0x100, &control.map(u64::to_ne_bytes).concat());
            world.area.write(HEADER + 32, at);
            world.area.write(HEADER + 40, 24_u64);
            Seen::reached(world.submit_to_services(&[Sqe::sendmsg(socket, header, 0x40)])[0])
        })
    }));
    attempts.push(Attempt::new("a socket of the host's", "send", Expected::Harm, |world| {
        let (host, at) = (world.scene.sockets.0.as_raw_fd(), world.text(BYTES, b"hello"));
        Seen::reached(world.submit_to_services(&[Sqe::send(host, at, 5, 0x40)])[0])
    }));
    attempts.push(Attempt::new("a socket of the host's", "recv", Expected::Harm, |world| {
        let (host, at) = (world.scene.sockets.0.as_raw_fd(), world.area.base);
        Seen::reached(world.submit_to_services(&[Sqe::recv(host, at, 64, 0x40)])[0])
    }));
    attempts.push(Attempt::new("a socket of the host's", "accept", Expected::Harm, |world| {
        let entry = Sqe::accept_service(world.scene.listeners[1].as_raw_fd(), 0, 0, 0);
        Seen::reached(world.submit_to_services(&[entry])[0])
    }));
    attempts.push(Attempt::new(
        "a socket of the host's",
        "one that stands for it",
        Expected::Harm,
        |world| {
            let wanted = PollFd { fd: world.scene.sockets.0.as_raw_fd(), events: 1, revents: 0 };
            world.area.write(BYTES, wanted);
            let entry = Sqe::poll_set(world.area.base + BYTES as u64, 1);
            Seen::reached(world.submit_to_services(&[entry])[0])
        },
    ));
}

/// Tries to receive what is on its way to one end of a pair, by the entry that `receive` makes.
fn greeted(world: &mut World, kind: u32, receive: impl Fn(&mut World, i32) -> Sqe) -> Seen {
    let [near, far] = match pair(world, kind) {
        Ok(ends) => ends,
        Err(seen) => return seen,
    };
    on(Ok(near), world, |world, socket| {
        let own = world.text(BYTES, b"hello");
        let _ = world.submit_to_services(&[Sqe::send(far, own, 5, 0x40)]);
        let entry = receive(world, socket);
        Seen::reached(world.submit_to_services(&[entry])[0])
    })
}

/// Where a message, or the address of its sender, would be put.
fn received(attempts: &mut Vec<Attempt>) {
    let row = "memory of the host by a pair";
    attempts.push(Attempt::new(row, "recv", Expected::Harm, |world| {
        greeted(world, STREAM, |world, socket| Sqe::recv(socket, world.scene.memory.address(), 5, 0x40))
    }));
    attempts.push(Attempt::new(row, "recvmsg", Expected::Harm, |world| {
        greeted(world, STREAM, |world, socket| {
            let header = message(world, (0, 0), (world.scene.memory.address(), 5));
            Sqe::recvmsg(socket, header, 0x40)
        })
    }));
    attempts.push(Attempt::new(row, "a sender's address", Expected::Harm, |world| {
        greeted(world, DGRAM, |world, socket| {
            let own = world.area.base + BYTES as u64;
            let header = message(world, (world.scene.memory.address(), 128), (own, 5));
            Sqe::recvmsg(socket, header, 0x40)
        })
    }));
}

/// An address that turns from a friend's into a stranger's while it is looked at.
fn turning(attempts: &mut Vec<Attempt>) {
    let row = "an address that is rewritten while it is served";
    attempts.push(Attempt::new(row, "connect", Expected::HarmOrOwn, |world| {
        let ports = [&world.scene.friends.0, &world.scene.strangers.0]
            .map(|listener| listener.local_addr().expect("bound").port().to_be_bytes());
        let (at, bytes) = friend(world);
        race(world, turn(at as usize + 2, ports), |world| {
            on(made(world, AF_INET, STREAM | 0o4000), world, |world, socket| {
                Seen::done(world.submit_to_services(&[Sqe::connect(socket, at, bytes)])[0])
            })
        })
    }));
    attempts.push(Attempt::new(row, "sendmsg", Expected::HarmOrOwn, |world| {
        let ports = [&world.scene.friends.1, &world.scene.strangers.1]
            .map(|socket| socket.local_addr().expect("bound").port().to_be_bytes());
        let name = put(world, world.scene.friends.1.local_addr().expect("bound").into());
        let header = message(world, name, (world.text(BYTES, b"hello"), 5));
        race(world, turn(name.0 as usize + 2, ports), |world| {
            on(made(world, AF_INET, DGRAM), world, |world, socket| {
                Seen::done(world.submit_to_services(&[Sqe::sendmsg(socket, header, 0x40)])[0])
            })
        })
    }));
}

fn turn(at: usize, ports: [[u8; 2]; 2]) -> impl Fn() + Send + Sync {
    move || {
        for port in ports {
            // SAFETY:
            // - within the address in the session's memory, where only the kernel reads besides
            unsafe { (at as *mut [u8; 2]).write_volatile(port) };
            std::hint::spin_loop();
        }
    }
}

pub(super) fn attempts() -> Vec<Attempt> {
    let mut attempts = Vec::new();
    kinds(&mut attempts);
    others(&mut attempts);
    messages(&mut attempts);
    places(&mut attempts);
    memory(&mut attempts);
    received(&mut attempts);
    turning(&mut attempts);
    attempts
}
