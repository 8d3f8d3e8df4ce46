/* <sys/socket.h> of sources that know nothing of gpufs. <gpufs/socket.h> says what differs from Linux. */
#ifndef GPUFS_STANDARD_SYS_SOCKET_H
#define GPUFS_STANDARD_SYS_SOCKET_H

#include <gpufs/standard/sys/uio.h>

#pragma GCC system_header

#define GPUFS_IN_MODE_
#include <gpufs/socket.h>
#undef GPUFS_IN_MODE_

#if defined(GPUFS_DROP_IN_HOST_)
#define GPUFS_READING_C_LIBRARY_
#include <gpufs/standard/sockets_hide.h>
#include <sys/socket.h>
#include <gpufs/standard/sockets_show.h>
#undef GPUFS_READING_C_LIBRARY_
#else
#include <gpufs/standard/types.h>
#include <gpufs/standard/sys/socket_constants.h>
typedef unsigned socklen_t;
typedef unsigned short sa_family_t;
struct sockaddr {
    sa_family_t sa_family;
    char sa_data[14];
};
struct sockaddr_storage {
    sa_family_t ss_family;
    char gpufs_pad[118];
    unsigned long gpufs_align;
};
struct msghdr {
    void *msg_name;
    socklen_t msg_namelen;
    struct iovec *msg_iov;
    size_t msg_iovlen;
    void *msg_control;
    size_t msg_controllen;
    int msg_flags;
};
struct linger {
    int l_onoff;
    int l_linger;
};
#endif

GPUFS_STANDARD_(int, socket, (int family, int kind, int protocol), (family, kind, protocol),
                return gpufs_value_(gpufs_socket(gpufs_used_(), family, kind, protocol));)
GPUFS_STANDARD_(int, socketpair, (int family, int kind, int protocol, int into[2]), (family, kind, protocol, into),
                return gpufs_value_(gpufs_socketpair(gpufs_used_(), family, kind, protocol, into));)
GPUFS_STANDARD_(int, bind, (int descriptor, const struct sockaddr *address, socklen_t bytes), (descriptor, address, bytes),
                return gpufs_value_(gpufs_bind(gpufs_used_(), descriptor, address, bytes));)
GPUFS_STANDARD_(int, listen, (int descriptor, int backlog), (descriptor, backlog),
                return gpufs_value_(gpufs_listen(gpufs_used_(), descriptor, backlog));)
GPUFS_STANDARD_(int, accept, (int descriptor, struct sockaddr *address, socklen_t *bytes), (descriptor, address, bytes),
                return gpufs_value_(gpufs_accept(gpufs_used_(), descriptor, address, bytes));)
#if defined(GPUFS_WITH_GNU_)
GPUFS_STANDARD_(int, accept4, (int descriptor, struct sockaddr *address, socklen_t *bytes, int flags),
                (descriptor, address, bytes, flags),
                return gpufs_value_(gpufs_accept4(gpufs_used_(), descriptor, address, bytes, flags));)
#endif
GPUFS_STANDARD_(int, connect, (int descriptor, const struct sockaddr *address, socklen_t bytes), (descriptor, address, bytes),
                return gpufs_value_(gpufs_connect(gpufs_used_(), descriptor, address, bytes));)
GPUFS_STANDARD_(int, shutdown, (int descriptor, int how), (descriptor, how),
                return gpufs_value_(gpufs_shutdown(gpufs_used_(), descriptor, how));)
GPUFS_STANDARD_(ssize_t, send, (int descriptor, const void *from, size_t bytes, int flags), (descriptor, from, bytes, flags),
                return (ssize_t)gpufs_value_(gpufs_send(gpufs_used_(), descriptor, from, bytes, flags));)
GPUFS_STANDARD_(ssize_t, sendto,
                (int descriptor, const void *from, size_t bytes, int flags, const struct sockaddr *address, socklen_t address_bytes),
                (descriptor, from, bytes, flags, address, address_bytes),
                return (ssize_t)gpufs_value_(
                    gpufs_sendto(gpufs_used_(), descriptor, from, bytes, flags, address, address_bytes));)
GPUFS_STANDARD_(ssize_t, recv, (int descriptor, void *into, size_t bytes, int flags), (descriptor, into, bytes, flags),
                return (ssize_t)gpufs_value_(gpufs_recv(gpufs_used_(), descriptor, into, bytes, flags));)
GPUFS_STANDARD_(ssize_t, recvfrom,
                (int descriptor, void *into, size_t bytes, int flags, struct sockaddr *address, socklen_t *address_bytes),
                (descriptor, into, bytes, flags, address, address_bytes),
                return (ssize_t)gpufs_value_(
                    gpufs_recvfrom(gpufs_used_(), descriptor, into, bytes, flags, address, address_bytes));)
GPUFS_STATIC_ASSERT_(sizeof(struct msghdr) == sizeof(gpufs_msghdr), "struct msghdr is Linux's");
/* Without ancillary data. */
GPUFS_STANDARD_(ssize_t, sendmsg, (int descriptor, const struct msghdr *message, int flags), (descriptor, message, flags),
                return (ssize_t)gpufs_value_(
                    gpufs_sendmsg(gpufs_used_(), descriptor, (const gpufs_msghdr *)(const void *)message, flags));)
GPUFS_STANDARD_(ssize_t, recvmsg, (int descriptor, struct msghdr *message, int flags), (descriptor, message, flags),
                return (ssize_t)gpufs_value_(
                    gpufs_recvmsg(gpufs_used_(), descriptor, (gpufs_msghdr *)(void *)message, flags));)
GPUFS_STANDARD_(int, setsockopt, (int descriptor, int level, int option, const void *value, socklen_t bytes),
                (descriptor, level, option, value, bytes),
                return gpufs_value_(gpufs_setsockopt(gpufs_used_(), descriptor, level, option, value, bytes));)
GPUFS_STANDARD_(int, getsockopt, (int descriptor, int level, int option, void *value, socklen_t *bytes),
                (descriptor, level, option, value, bytes),
                return gpufs_value_(gpufs_getsockopt(gpufs_used_(), descriptor, level, option, value, bytes));)
GPUFS_STANDARD_(int, getsockname, (int descriptor, struct sockaddr *address, socklen_t *bytes), (descriptor, address, bytes),
                return gpufs_value_(gpufs_getsockname(gpufs_used_(), descriptor, address, bytes));)
GPUFS_STANDARD_(int, getpeername, (int descriptor, struct sockaddr *address, socklen_t *bytes), (descriptor, address, bytes),
                return gpufs_value_(gpufs_getpeername(gpufs_used_(), descriptor, address, bytes));)

#endif
