/* Structures of sockets have one layout: with the C library's own headers, with the drop-in ones for CPU lanes, and for GPUs.
 * tests/tests/drop_in.rs compiles it in each way. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#define OFFSET(type, field, bytes) _Static_assert(offsetof(type, field) == (bytes), #type " " #field)

SIZE(socklen_t, 4);
SIZE(sa_family_t, 2);
SIZE(in_port_t, 2);
SIZE(in_addr_t, 4);
SIZE(nfds_t, 8);
SIZE(struct sockaddr, 16);
OFFSET(struct sockaddr, sa_data, 2);
SIZE(struct sockaddr_storage, 128);
_Static_assert(_Alignof(struct sockaddr_storage) == 8, "struct sockaddr_storage");
SIZE(struct msghdr, 56);
OFFSET(struct msghdr, msg_iov, 16);
OFFSET(struct msghdr, msg_controllen, 40);
OFFSET(struct msghdr, msg_flags, 48);
SIZE(struct linger, 8);
OFFSET(struct linger, l_linger, 4);
SIZE(struct sockaddr_in, 16);
OFFSET(struct sockaddr_in, sin_port, 2);
OFFSET(struct sockaddr_in, sin_addr, 4);
SIZE(struct in6_addr, 16);
_Static_assert(_Alignof(struct in6_addr) == 4, "struct in6_addr");
SIZE(struct sockaddr_in6, 28);
OFFSET(struct sockaddr_in6, sin6_port, 2);
OFFSET(struct sockaddr_in6, sin6_flowinfo, 4);
OFFSET(struct sockaddr_in6, sin6_addr, 8);
OFFSET(struct sockaddr_in6, sin6_scope_id, 24);
SIZE(struct ip_mreq, 8);
OFFSET(struct ip_mreq, imr_interface, 4);
SIZE(struct ipv6_mreq, 20);
OFFSET(struct ipv6_mreq, ipv6mr_interface, 16);
SIZE(struct sockaddr_un, 110);
OFFSET(struct sockaddr_un, sun_path, 2);
SIZE(struct pollfd, 8);
OFFSET(struct pollfd, events, 4);
OFFSET(struct pollfd, revents, 6);

/* As pointers, too, and with the types that POSIX gives them. */
int (*const binds)(int, const struct sockaddr *, socklen_t) = bind;
ssize_t (*const receives)(int, void *restrict, size_t, int, struct sockaddr *restrict, socklen_t *restrict) = recvfrom;
ssize_t (*const sends)(int, const struct msghdr *, int) = sendmsg;
int (*const polls)(struct pollfd *, nfds_t, int) = poll;

int listens_on_loopback(int port) {
    static const struct sockaddr_in6 none = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in6 address = none;
    int made = socket(AF_INET6, SOCK_STREAM, IPPROTO_TCP);
    address.sin6_port = htons((in_port_t)port);
    if (!IN6_IS_ADDR_LOOPBACK(&address.sin6_addr) || IN6_IS_ADDR_UNSPECIFIED(&in6addr_loopback) || made < 0) {
        return -1;
    }
    return bind(made, (struct sockaddr *)&address, sizeof address) == 0 ? listen(made, SOMAXCONN) : -1;
}
