//! Which sockets kernels of a sandbox may make, and whom they may reach by them: [`Sockets`].

use std::net::{IpAddr, SocketAddr};

/// How bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Udp,
}

/// What an address is to a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Its peer's.
    To,
    /// Its own.
    At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named {
    transport: Transport,
    side: Side,
    address: SocketAddr,
}

/// The sockets that kernels of a session in a sandbox may make: [`Sandbox::sockets`](super::Sandbox::sockets). Those that are named here, and no
/// others; what is not named fails with `EACCES` in the lane that asked.
///
/// An unspecified address (`0.0.0.0`, `[::]`) stands for each of its family, and port 0 for each port. An IPv4 address in IPv6's form
/// (`::ffff:127.0.0.1`) is that of IPv4; a socket bound to `[::]` takes connections of IPv4 as well, as Linux has it.
///
/// Unix sockets that have a name, raw sockets and those of other protocols are not made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "sockets are named for a sandbox: Sandbox::sockets"]
pub struct Sockets {
    named: Vec<Named>,
    pub(super) pairs: bool,
}

impl Sockets {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }
    /// Connected pairs of Unix sockets (`socketpair`), which reach each other alone.
    pub fn pairs(mut self) -> Self {
        self.pairs = true;
        self
    }
    /// TCP connections to `peer`.
    pub fn tcp_to(self, peer: impl Into<SocketAddr>) -> Self {
        self.with(Transport::Tcp, Side::To, peer.into())
    }
    /// TCP sockets that listen at `address`, and the connections that they accept from anyone.
    pub fn tcp_at(self, address: impl Into<SocketAddr>) -> Self {
        self.with(Transport::Tcp, Side::At, address.into())
    }
    /// Messages of UDP to `peer`.
    pub fn udp_to(self, peer: impl Into<SocketAddr>) -> Self {
        self.with(Transport::Udp, Side::To, peer.into())
    }
    /// UDP sockets at `address`, which receive from anyone. Whom they answer has to be named as well ([`Sockets::udp_to`]).
    pub fn udp_at(self, address: impl Into<SocketAddr>) -> Self {
        self.with(Transport::Udp, Side::At, address.into())
    }

    fn with(mut self, transport: Transport, side: Side, address: SocketAddr) -> Self {
        self.named.push(Named { transport, side, address: canonical(address) });
        self
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.named.is_empty() && !self.pairs
    }
    /// Whether some are TCP's.
    pub(super) fn has_tcp(&self) -> bool {
        self.named.iter().any(|named| named.transport == Transport::Tcp)
    }
    /// Whether a socket of this kind may be made. One of IPv6 also reaches addresses of IPv4.
    pub(super) fn makes(&self, transport: Transport, is_v6: bool) -> bool {
        self.named.iter().any(|named| named.transport == transport && (is_v6 || named.address.is_ipv4()))
    }
    /// Whether a socket may have, or reach, this address.
    pub(super) fn allows(&self, transport: Transport, side: Side, address: SocketAddr) -> bool {
        let asked = canonical(address);
        self.named.iter().any(|named| {
            named.transport == transport
                && named.side == side
                && (named.address.port() == 0 || named.address.port() == asked.port())
                && covers(named.address.ip(), asked.ip())
        })
    }
    /// The ports of TCP on one side; `None` where each is allowed.
    pub(super) fn tcp_ports(&self, side: Side) -> Option<Vec<u16>> {
        let of_side = |named: &&Named| named.transport == Transport::Tcp && named.side == side;
        let ports: Vec<u16> = self.named.iter().filter(of_side).map(|named| named.address.port()).collect();
        (!ports.contains(&0)).then_some(ports)
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn covers(named: IpAddr, asked: IpAddr) -> bool {
    named == asked || (named.is_unspecified() && named.is_ipv4() == asked.is_ipv4())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_is_allowed_where_it_is_named() {
        use Side::{At, To};
        use Transport::{Tcp, Udp};
        let sockets = Sockets::new()
            .tcp_to(address("10.0.0.1:80"))
            .tcp_to(address("[::]:443"))
            .udp_to(address("0.0.0.0:53"))
            .tcp_at(address("127.0.0.1:0"));
        for (transport, side, asked, allowed) in [
            (Tcp, To, "10.0.0.1:80", true),
            (Tcp, To, "[::ffff:10.0.0.1]:80", true),
            (Tcp, To, "10.0.0.1:81", false),
            (Tcp, To, "10.0.0.2:80", false),
            (Tcp, At, "10.0.0.1:80", false),
            (Udp, To, "10.0.0.1:80", false),
            (Tcp, To, "[fe80::1]:443", true),
            // Every address of IPv6 is not one of IPv4.
            (Tcp, To, "[::ffff:10.0.0.2]:443", false),
            (Udp, To, "10.0.0.2:53", true),
            (Udp, To, "10.0.0.2:54", false),
            (Tcp, At, "127.0.0.1:0", true),
            (Tcp, At, "127.0.0.1:8080", true),
            (Tcp, At, "0.0.0.0:8080", false),
            // Linux takes it for this machine, which is not named.
            (Tcp, To, "0.0.0.0:80", false),
        ] {
            assert_eq!(
                sockets.allows(transport, side, address(asked)),
                allowed,
                "{transport:?} {side:?} {asked}"
            );
        }
        assert_eq!(sockets.tcp_ports(To), Some(vec![80, 443]));
        assert_eq!(sockets.tcp_ports(At), None);
        assert!(sockets.makes(Tcp, false) && sockets.makes(Udp, true) && !Sockets::new().makes(Tcp, true));
        assert!(!Sockets::new().tcp_to(address("[::1]:1")).makes(Tcp, false));
    }
}
