/* Sockets from C on CPU lanes: two lanes of a warp talk over TCP and UDP, then each wrong use. */
#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <gpufs/gpufs.h>
#include <gpufs/host.h>
#include <gpufs/socket.h>
#include <gpufs/stdio.h>

GPUFS_STATIC_ASSERT_(sizeof(struct pollfd) == sizeof(gpufs_pollfd), "struct pollfd is Linux's");
GPUFS_STATIC_ASSERT_(sizeof(struct msghdr) == sizeof(gpufs_msghdr), "struct msghdr is Linux's");
GPUFS_STATIC_ASSERT_(offsetof(struct msghdr, msg_flags) == offsetof(gpufs_msghdr, msg_flags), "struct msghdr is Linux's");
GPUFS_STATIC_ASSERT_(sizeof(socklen_t) == sizeof(uint32_t), "socklen_t is Linux's");

static struct sockaddr_in local(void) {
    struct sockaddr_in address;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

struct shared {
    int listener;
    struct sockaddr_in address;
};

static void listens(gpufs_session *fs, void *argument) {
    struct shared *shared = argument;
    int yes = 1, is = 0;
    uint32_t bytes = sizeof shared->address, is_bytes = sizeof is;
    shared->address = local();
    shared->listener = gpufs_socket(fs, AF_INET, SOCK_STREAM, 0);
    CHECK(shared->listener >= 0);
    CHECK(gpufs_setsockopt(fs, shared->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0);
    CHECK(gpufs_getsockopt(fs, shared->listener, SOL_SOCKET, SO_REUSEADDR, &is, &is_bytes) == 0);
    CHECK(is != 0 && is_bytes == sizeof is);
    CHECK(gpufs_bind(fs, shared->listener, (struct sockaddr *)&shared->address, sizeof shared->address) == 0);
    CHECK(gpufs_listen(fs, shared->listener, 8) == 0);
    CHECK(gpufs_getsockname(fs, shared->listener, (struct sockaddr *)&shared->address, &bytes) == 0);
    CHECK(bytes == sizeof shared->address && shared->address.sin_port != 0);
}

static void server(gpufs_session *fs, const struct shared *shared) {
    struct sockaddr_in peer, same;
    uint32_t bytes = sizeof peer, same_bytes = sizeof same;
    char text[16];
    int connection = gpufs_accept(fs, shared->listener, (struct sockaddr *)&peer, &bytes);
    CHECK(connection >= 0 && bytes == sizeof peer && peer.sin_family == AF_INET);
    CHECK(gpufs_getpeername(fs, connection, (struct sockaddr *)&same, &same_bytes) == 0);
    CHECK(same.sin_port == peer.sin_port);
    CHECK(gpufs_recv(fs, connection, text, 5, MSG_WAITALL) == 5 && memcmp(text, "hello", 5) == 0);
    CHECK(gpufs_send(fs, connection, "HELLO\n", 6, 0) == 6);
    /* The end of the peer's. */
    CHECK(gpufs_recv(fs, connection, text, sizeof text, 0) == 0);
    CHECK(gpufs_close(fs, connection) == 0);
    connection = gpufs_accept4(fs, shared->listener, NULL, NULL, SOCK_NONBLOCK);
    CHECK(connection >= 0);
    CHECK_FAILS(gpufs_recv(fs, connection, text, sizeof text, 0), -1, EAGAIN);
    gpufs_pollfd wait = {connection, POLLIN, 0};
    CHECK(gpufs_poll(fs, &wait, 1, 10000) == 1 && (wait.revents & POLLIN) != 0);
    CHECK(gpufs_recv(fs, connection, text, sizeof text, 0) == 0);
    CHECK(gpufs_close(fs, connection) == 0);
}

static void client(gpufs_session *fs, const struct shared *shared) {
    char line[16];
    int connection = gpufs_socket(fs, AF_INET, SOCK_STREAM, 0);
    CHECK(gpufs_connect(fs, connection, (const struct sockaddr *)&shared->address, sizeof shared->address) == 0);
    CHECK(gpufs_send(fs, connection, "hello", 5, 0) == 5);
    CHECK(gpufs_shutdown(fs, connection, SHUT_WR) == 0);
    /* A connection is a stream, too. */
    gpufs_file *stream = gpufs_fdopen(fs, connection, "r");
    CHECK(stream != NULL && gpufs_fgets(line, sizeof line, stream) == line && strcmp(line, "HELLO\n") == 0);
    CHECK(gpufs_fclose(stream) == 0);
    connection = gpufs_socket(fs, AF_INET, SOCK_STREAM, 0);
    CHECK(gpufs_connect(fs, connection, (const struct sockaddr *)&shared->address, sizeof shared->address) == 0);
    CHECK(gpufs_poll(fs, NULL, 0, 20) == 0);
    CHECK(gpufs_close(fs, connection) == 0);
}

static void talk(gpufs_session *fs, void *argument) {
    if (gpufs_thread() == 0) {
        server(fs, argument);
    } else {
        client(fs, argument);
    }
}

static void messages(gpufs_session *fs, void *argument) {
    struct sockaddr_in here = local(), from;
    uint32_t bytes = sizeof here, from_bytes = sizeof from;
    char text[16];
    int ends[2], socket = gpufs_socket(fs, AF_INET, SOCK_DGRAM, 0);
    (void)argument;
    CHECK(gpufs_bind(fs, socket, (struct sockaddr *)&here, sizeof here) == 0);
    CHECK(gpufs_getsockname(fs, socket, (struct sockaddr *)&here, &bytes) == 0);
    CHECK(gpufs_sendto(fs, socket, "to myself", 9, 0, (struct sockaddr *)&here, sizeof here) == 9);
    CHECK(gpufs_recvfrom(fs, socket, text, sizeof text, 0, (struct sockaddr *)&from, &from_bytes) == 9);
    CHECK(memcmp(text, "to myself", 9) == 0 && from_bytes == sizeof from && from.sin_port == here.sin_port);
    CHECK(gpufs_close(fs, socket) == 0);
    CHECK(gpufs_socketpair(fs, AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    CHECK(gpufs_sendto(fs, ends[0], "x", 1, 0, NULL, 0) == 1);
    CHECK(gpufs_recvfrom(fs, ends[1], text, sizeof text, 0, NULL, NULL) == 1);
    CHECK(gpufs_close(fs, ends[0]) == 0 && gpufs_close(fs, ends[1]) == 0);
}

/* A message in pieces from one UDP socket to another. */
static void pieces(gpufs_session *fs, void *argument) {
    struct sockaddr_in here = local(), sender;
    uint32_t bytes = sizeof here;
    char text[16] = "", control[32];
    gpufs_iovec from[3] = {{(void *)"one ", 4}, {NULL, 0}, {(void *)"message", 7}}, into[2] = {{text, 2}, {text + 8, 6}};
    gpufs_msghdr out, in;
    int one = gpufs_socket(fs, AF_INET, SOCK_DGRAM, 0), two = gpufs_socket(fs, AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    (void)argument;
    memset(&out, 0, sizeof out);
    in = out;
    CHECK(one >= 0 && gpufs_bind(fs, two, (struct sockaddr *)&here, bytes) == 0);
    CHECK(gpufs_getsockname(fs, two, (struct sockaddr *)&here, &bytes) == 0);
    out.msg_name = &here, out.msg_namelen = sizeof here, out.msg_iov = from, out.msg_iovlen = 3;
    in.msg_name = &sender, in.msg_namelen = sizeof sender, in.msg_iov = into, in.msg_iovlen = 2;
    in.msg_control = control, in.msg_controllen = sizeof control;
    CHECK(gpufs_sendmsg(fs, one, &out, 0) == 11);
    CHECK(gpufs_recvmsg(fs, two, &in, 0) == 8 && in.msg_flags == MSG_TRUNC && in.msg_controllen == 0);
    CHECK(memcmp(text, "on", 2) == 0 && memcmp(text + 8, "e mess", 6) == 0);
    CHECK(in.msg_namelen == sizeof sender && sender.sin_family == AF_INET && sender.sin_port != here.sin_port);
    CHECK_FAILS(gpufs_recvmsg(fs, two, &in, 0), -1, EAGAIN);
    out.msg_name = NULL;
    CHECK_FAILS(gpufs_sendmsg(fs, one, &out, 0), -1, EDESTADDRREQ);
    CHECK_FAILS(gpufs_sendmsg(NULL, one, &out, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_recvmsg(NULL, one, &in, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_sendmsg(fs, one, NULL, 0), -1, EFAULT);
    CHECK_FAILS(gpufs_recvmsg(fs, one, NULL, 0), -1, EFAULT);
    out.msg_iov = NULL;
    CHECK_FAILS(gpufs_sendmsg(fs, one, &out, 0), -1, EFAULT);
    out.msg_iov = from, from[1].iov_len = 1;
    CHECK_FAILS(gpufs_sendmsg(fs, one, &out, 0), -1, EFAULT);
    from[1].iov_len = 0, out.msg_iovlen = 1025;
    CHECK_FAILS(gpufs_sendmsg(fs, one, &out, 0), -1, EMSGSIZE);
    in.msg_iovlen = 1025;
    CHECK_FAILS(gpufs_recvmsg(fs, one, &in, 0), -1, EMSGSIZE);
    out.msg_iovlen = 3, out.msg_control = control, out.msg_controllen = sizeof control;
    CHECK_FAILS(gpufs_sendmsg(fs, one, &out, 0), -1, EOPNOTSUPP);
    out.msg_controllen = 0, in.msg_iovlen = 2;
    CHECK_FAILS(gpufs_sendmsg(fs, 50, &out, 0), -1, EBADF);
    CHECK_FAILS(gpufs_recvmsg(fs, 50, &in, 0), -1, EBADF);
    CHECK(gpufs_close(fs, one) == 0 && gpufs_close(fs, two) == 0);
}

static void wrong(gpufs_session *fs, void *argument) {
    struct sockaddr_in here = local();
    struct sockaddr *name = (struct sockaddr *)&here;
    uint32_t bytes = sizeof here;
    char text[8] = "";
    gpufs_pollfd all[1] = {{50, POLLIN, 0}};
    int file = gpufs_open(fs, "/dev/null", GPUFS_O_RDWR, 0);
    (void)argument;
    CHECK_FAILS(gpufs_socket(NULL, AF_INET, SOCK_STREAM, 0), -1, EINVAL);
    CHECK_FAILS(gpufs_socket(fs, -1, SOCK_STREAM, 0), -1, EAFNOSUPPORT);
    CHECK_FAILS(gpufs_socketpair(fs, AF_UNIX, SOCK_STREAM, 0, NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_bind(fs, file, name, bytes), -1, ENOTSOCK);
    CHECK_FAILS(gpufs_bind(fs, 50, name, bytes), -1, EBADF);
    CHECK_FAILS(gpufs_bind(fs, file, NULL, bytes), -1, EFAULT);
    CHECK_FAILS(gpufs_bind(fs, file, name, 4000), -1, EINVAL);
    CHECK_FAILS(gpufs_connect(fs, -1, name, bytes), -1, EBADF);
    CHECK_FAILS(gpufs_listen(fs, file, 1), -1, ENOTSOCK);
    CHECK_FAILS(gpufs_accept(fs, file, NULL, NULL), -1, ENOTSOCK);
    CHECK_FAILS(gpufs_accept(fs, file, name, NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_accept4(fs, 50, NULL, NULL, 0), -1, EBADF);
    CHECK_FAILS(gpufs_shutdown(fs, file, SHUT_WR), -1, ENOTSOCK);
    CHECK_FAILS(gpufs_send(fs, file, text, 1, 0), -1, ENOTSOCK);
    CHECK_FAILS(gpufs_send(fs, file, NULL, 1, 0), -1, EFAULT);
    CHECK_FAILS(gpufs_sendto(fs, file, text, 1, 0, name, 4000), -1, EINVAL);
    CHECK_FAILS(gpufs_recv(fs, file, NULL, 1, 0), -1, EFAULT);
    CHECK_FAILS(gpufs_recvfrom(fs, file, text, 1, 0, name, NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_setsockopt(fs, file, SOL_SOCKET, SO_REUSEADDR, NULL, 4), -1, EFAULT);
    CHECK_FAILS(gpufs_getsockopt(fs, file, SOL_SOCKET, SO_TYPE, text, NULL), -1, EFAULT);
    CHECK_FAILS(gpufs_getsockopt(fs, file, SOL_SOCKET, SO_TYPE, text, &bytes), -1, ENOTSOCK);
    CHECK_FAILS(gpufs_getsockname(fs, 50, name, &bytes), -1, EBADF);
    CHECK_FAILS(gpufs_getpeername(fs, file, name, &bytes), -1, ENOTSOCK);
    CHECK_FAILS(gpufs_poll(fs, NULL, 1, 0), -1, EFAULT);
    CHECK_FAILS(gpufs_poll(fs, all, 513, 0), -1, EINVAL);
    CHECK(gpufs_poll(fs, all, 1, -1) == 1 && all[0].revents == POLLNVAL);
    CHECK(gpufs_close(fs, file) == 0);
}

int main(void) {
    struct shared shared;
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, NULL);
    CHECK(host != NULL);
    CHECK(gpufs_host_launch(host, 1, 1, listens, &shared) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 2, talk, &shared) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, messages, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, pieces, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, wrong, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_close(host) == 0);
    return 0;
}
