/* <poll.h> of sources that know nothing of gpufs. */
#ifndef GPUFS_STANDARD_POLL_H
#define GPUFS_STANDARD_POLL_H

#include <gpufs/standard/mode.h>

#pragma GCC system_header

#define GPUFS_IN_MODE_
#include <gpufs/socket.h>
#undef GPUFS_IN_MODE_

#if defined(GPUFS_DROP_IN_HOST_)
#define GPUFS_READING_C_LIBRARY_
#define poll(...) gpufs_hidden_poll(__VA_ARGS__)
#define ppoll(...) gpufs_hidden_ppoll(__VA_ARGS__)
#include <poll.h>
#undef poll
#undef ppoll
#undef GPUFS_READING_C_LIBRARY_
#else
typedef unsigned long nfds_t;
struct pollfd {
    int fd;
    short events;
    short revents;
};
#define POLLIN 0x1
#define POLLPRI 0x2
#define POLLOUT 0x4
#define POLLERR 0x8
#define POLLHUP 0x10
#define POLLNVAL 0x20
#define POLLRDNORM 0x40
#define POLLRDBAND 0x80
#define POLLWRNORM 0x100
#define POLLWRBAND 0x200
#if defined(GPUFS_WITH_GNU_)
#define POLLRDHUP 0x2000
#endif
#endif

GPUFS_STATIC_ASSERT_(sizeof(struct pollfd) == sizeof(gpufs_pollfd), "struct pollfd is Linux's");
GPUFS_STATIC_ASSERT_(offsetof(struct pollfd, revents) == offsetof(gpufs_pollfd, revents), "struct pollfd is Linux's");

/* Of 512 entries at most. */
GPUFS_STANDARD_(int, poll, (struct pollfd *all, nfds_t entries, int timeout), (all, entries, timeout),
                return gpufs_value_(gpufs_poll(gpufs_used_(), (gpufs_pollfd *)(void *)all, entries, timeout));)

#endif
