/* Sockets: TCP, UDP, Unix and what else socket(2) makes, and poll(2). For CUDA and HIP kernels and for CPU lanes.
 *
 * A socket is a descriptor: gpufs_read, gpufs_write, gpufs_dup, gpufs_close and gpufs_fdopen take it. Each thread calls
 * for itself; the calls of a warp are tried as one batch, and a thread that has to wait for its peer waits by itself.
 * Addresses, constants and options are those of Linux: struct sockaddr_in and its kin, with bytes in network order.
 * No call raises SIGPIPE. Every call fails with -1 and EINVAL for a null session, EFAULT for null memory, EBADF for a
 * number that is not an open descriptor, ENOTSOCK for another file, EACCES for what a sandbox does not name, or an
 * error of the system call. What differs from the system's calls: the table of gpufs-device/src/socket/mod.rs.
 */
#ifndef GPUFS_SOCKET_H
#define GPUFS_SOCKET_H

#include <gpufs/raw.h>
#include <gpufs/file.h>

struct sockaddr;

/* What poll is asked of a descriptor, and what it says: struct pollfd. */
typedef struct gpufs_pollfd {
    int fd;        /* one below 0 is passed over */
    int16_t events;  /* what is wanted: POLLIN ... */
    int16_t revents; /* what there is */
} gpufs_pollfd;

GPUFS_SIZE_(gpufs_pollfd, 8);
GPUFS_OFFSET_(gpufs_pollfd, events, 4);
GPUFS_OFFSET_(gpufs_pollfd, revents, 6);

/* A message in several pieces: struct msghdr. */
typedef struct gpufs_msghdr {
    void *msg_name;         /* an address, or null */
    uint32_t msg_namelen;   /* its bytes, or the room for one */
    gpufs_iovec *msg_iov;   /* the pieces */
    size_t msg_iovlen;      /* how many: 1024 at most */
    void *msg_control;      /* ancillary data: none is sent, and what comes is dropped */
    size_t msg_controllen;  /* 0 */
    int msg_flags;          /* of a message that came: MSG_TRUNC, MSG_CTRUNC ... */
} gpufs_msghdr;

GPUFS_SIZE_(gpufs_msghdr, 56);
GPUFS_OFFSET_(gpufs_msghdr, msg_iov, 16);
GPUFS_OFFSET_(gpufs_msghdr, msg_controllen, 40);
GPUFS_OFFSET_(gpufs_msghdr, msg_flags, 48);

/* A new socket (socket(2)): AF_INET, SOCK_STREAM ... A descriptor, or -1: EAFNOSUPPORT, EMFILE ... */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_socket(gpufs_session *session, int family, int kind, int protocol) {
    return gpufs_int_(gpufs_raw_socket(session, family, kind, protocol));
}
/* Two sockets that are connected (socketpair(2)), to `into`. 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_socketpair(gpufs_session *session, int family, int kind, int protocol, int *into) {
    return gpufs_int_(gpufs_raw_socketpair(session, family, kind, protocol, into));
}
/* Gives a socket its address (bind(2)). 0, or -1: EADDRINUSE ... */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_bind(gpufs_session *session, int socket, const struct sockaddr *address, uint32_t bytes) {
    return gpufs_int_(gpufs_raw_bind(session, socket, address, bytes));
}
/* Lets a socket accept connections (listen(2)). 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_listen(gpufs_session *session, int socket, int backlog) {
    return gpufs_int_(gpufs_raw_listen(session, socket, backlog));
}
/* The next connection (accept(2)), and its peer's address where that is not null. A descriptor, or -1: EINVAL
 * for a socket that does not listen, EAGAIN, EMFILE ... */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_accept(gpufs_session *session, int socket, struct sockaddr *address, uint32_t *bytes) {
    return gpufs_int_(gpufs_raw_accept(session, socket, address, bytes));
}
/* The same with SOCK_NONBLOCK and SOCK_CLOEXEC (accept4(2)). */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_accept4(gpufs_session *session, int socket, struct sockaddr *address, uint32_t *bytes, int flags) {
    return gpufs_int_(gpufs_raw_accept4(session, socket, address, bytes, flags));
}
/* Connects a socket with a peer (connect(2)). 0, or -1: ECONNREFUSED, EINPROGRESS with SOCK_NONBLOCK ... */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_connect(gpufs_session *session, int socket, const struct sockaddr *address, uint32_t bytes) {
    return gpufs_int_(gpufs_raw_connect(session, socket, address, bytes));
}
/* Ends one direction of a connection or both (shutdown(2)). 0, or -1: ENOTCONN. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_shutdown(gpufs_session *session, int socket, int how) {
    return gpufs_int_(gpufs_raw_shutdown(session, socket, how));
}
/* Sends bytes to the peer (send(2)), all of them unless with MSG_DONTWAIT. Bytes, or -1: EPIPE, EAGAIN ... */
GPUFS_INLINE GPUFS_RESULT(int64_t)
gpufs_send(gpufs_session *session, int socket, const void *from, size_t bytes, int flags) {
    return gpufs_int64_(gpufs_raw_send(session, socket, from, bytes, flags));
}
/* The same of a message to an address (sendto(2)). */
GPUFS_INLINE GPUFS_RESULT(int64_t)
gpufs_sendto(gpufs_session *session, int socket, const void *from, size_t bytes, int flags,
             const struct sockaddr *address, uint32_t address_bytes) {
    return gpufs_int64_(gpufs_raw_sendto(session, socket, from, bytes, flags, address, address_bytes));
}
/* Receives what there is (recv(2)), and waits for a first byte. Bytes, 0 where the connection has ended, or -1:
 * EAGAIN, ECONNRESET ... */
GPUFS_INLINE GPUFS_RESULT(int64_t)
gpufs_recv(gpufs_session *session, int socket, void *into, size_t bytes, int flags) {
    return gpufs_int64_(gpufs_raw_recv(session, socket, into, bytes, flags));
}
/* The same with the sender's address (recvfrom(2)). */
GPUFS_INLINE GPUFS_RESULT(int64_t)
gpufs_recvfrom(gpufs_session *session, int socket, void *into, size_t bytes, int flags, struct sockaddr *address,
               uint32_t *address_bytes) {
    return gpufs_int64_(gpufs_raw_recvfrom(session, socket, into, bytes, flags, address, address_bytes));
}
/* Sends the bytes of a message's pieces (sendmsg(2)), to its address where there is one. Bytes, or -1: EMSGSIZE for more
 * than 1024 pieces, EOPNOTSUPP for ancillary data, EPIPE, EAGAIN ... */
GPUFS_INLINE GPUFS_RESULT(int64_t)
gpufs_sendmsg(gpufs_session *session, int socket, const gpufs_msghdr *message, int flags) {
    return gpufs_int64_(gpufs_raw_sendmsg(session, socket, message, flags));
}
/* Receives into a message's pieces (recvmsg(2)). Its header gets the length of the sender's address, and the flags:
 * MSG_TRUNC, or MSG_CTRUNC where ancillary data was dropped. Bytes, 0 where the connection has ended, or -1. */
GPUFS_INLINE GPUFS_RESULT(int64_t)
gpufs_recvmsg(gpufs_session *session, int socket, gpufs_msghdr *message, int flags) {
    return gpufs_int64_(gpufs_raw_recvmsg(session, socket, message, flags));
}
/* Sets an option (setsockopt(2)). 0, or -1: ENOPROTOOPT, EINVAL ... */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_setsockopt(gpufs_session *session, int socket, int level, int option, const void *value, uint32_t bytes) {
    return gpufs_int_(gpufs_raw_setsockopt(session, socket, level, option, value, bytes));
}
/* An option's value (getsockopt(2)), cut to the bytes there are. 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_getsockopt(gpufs_session *session, int socket, int level, int option, void *value, uint32_t *bytes) {
    return gpufs_int_(gpufs_raw_getsockopt(session, socket, level, option, value, bytes));
}
/* A socket's address (getsockname(2)). 0 or -1. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_getsockname(gpufs_session *session, int socket, struct sockaddr *address, uint32_t *bytes) {
    return gpufs_int_(gpufs_raw_getsockname(session, socket, address, bytes));
}
/* The address of a socket's peer (getpeername(2)). 0, or -1: ENOTCONN. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_getpeername(gpufs_session *session, int socket, struct sockaddr *address, uint32_t *bytes) {
    return gpufs_int_(gpufs_raw_getpeername(session, socket, address, bytes));
}
/* Waits until a descriptor is ready (poll(2)), for `timeout` milliseconds, or for ever if that is negative. How
 * many are, or -1: EINVAL for more than 512 entries. */
GPUFS_INLINE GPUFS_RESULT(int)
gpufs_poll(gpufs_session *session, gpufs_pollfd *all, uint64_t entries, int timeout) {
    return gpufs_int_(gpufs_raw_poll(session, all, entries, timeout));
}

#ifdef __cplusplus

namespace gpufs {

/* The standard names. */
GPUFS_BOTH inline Result<int> socket(Session session, int family, int kind, int protocol) {
    return gpufs_socket(session, family, kind, protocol);
}
GPUFS_BOTH inline Result<int> socketpair(Session session, int family, int kind, int protocol, int *into) {
    return gpufs_socketpair(session, family, kind, protocol, into);
}
GPUFS_BOTH inline Result<int> bind(Session session, int socket, const struct sockaddr *address, uint32_t bytes) {
    return gpufs_bind(session, socket, address, bytes);
}
GPUFS_BOTH inline Result<int> listen(Session session, int socket, int backlog) {
    return gpufs_listen(session, socket, backlog);
}
GPUFS_BOTH inline Result<int> accept(Session session, int socket, struct sockaddr *address, uint32_t *bytes) {
    return gpufs_accept(session, socket, address, bytes);
}
GPUFS_BOTH inline Result<int> accept4(Session session, int socket, struct sockaddr *address, uint32_t *bytes,
                                      int flags) {
    return gpufs_accept4(session, socket, address, bytes, flags);
}
GPUFS_BOTH inline Result<int> connect(Session session, int socket, const struct sockaddr *address, uint32_t bytes) {
    return gpufs_connect(session, socket, address, bytes);
}
GPUFS_BOTH inline Result<int> shutdown(Session session, int socket, int how) {
    return gpufs_shutdown(session, socket, how);
}
GPUFS_BOTH inline Result<int64_t> send(Session session, int socket, const void *from, size_t bytes, int flags) {
    return gpufs_send(session, socket, from, bytes, flags);
}
GPUFS_BOTH inline Result<int64_t> sendto(Session session, int socket, const void *from, size_t bytes, int flags,
                                         const struct sockaddr *address, uint32_t address_bytes) {
    return gpufs_sendto(session, socket, from, bytes, flags, address, address_bytes);
}
GPUFS_BOTH inline Result<int64_t> recv(Session session, int socket, void *into, size_t bytes, int flags) {
    return gpufs_recv(session, socket, into, bytes, flags);
}
GPUFS_BOTH inline Result<int64_t> recvfrom(Session session, int socket, void *into, size_t bytes, int flags,
                                           struct sockaddr *address, uint32_t *address_bytes) {
    return gpufs_recvfrom(session, socket, into, bytes, flags, address, address_bytes);
}
GPUFS_BOTH inline Result<int64_t> sendmsg(Session session, int socket, const gpufs_msghdr *message, int flags) {
    return gpufs_sendmsg(session, socket, message, flags);
}
GPUFS_BOTH inline Result<int64_t> recvmsg(Session session, int socket, gpufs_msghdr *message, int flags) {
    return gpufs_recvmsg(session, socket, message, flags);
}
GPUFS_BOTH inline Result<int> setsockopt(Session session, int socket, int level, int option, const void *value,
                                         uint32_t bytes) {
    return gpufs_setsockopt(session, socket, level, option, value, bytes);
}
GPUFS_BOTH inline Result<int> getsockopt(Session session, int socket, int level, int option, void *value,
                                         uint32_t *bytes) {
    return gpufs_getsockopt(session, socket, level, option, value, bytes);
}
GPUFS_BOTH inline Result<int> getsockname(Session session, int socket, struct sockaddr *address, uint32_t *bytes) {
    return gpufs_getsockname(session, socket, address, bytes);
}
GPUFS_BOTH inline Result<int> getpeername(Session session, int socket, struct sockaddr *address, uint32_t *bytes) {
    return gpufs_getpeername(session, socket, address, bytes);
}
GPUFS_BOTH inline Result<int> poll(Session session, gpufs_pollfd *all, uint64_t entries, int timeout) {
    return gpufs_poll(session, all, entries, timeout);
}

} /* namespace gpufs */

#endif

#endif
