/* <sys/un.h> as Linux has it, where no C library gives it. */
#ifndef GPUFS_STANDARD_SYS_UN_H
#define GPUFS_STANDARD_SYS_UN_H

#include <gpufs/standard/sys/socket.h>

#pragma GCC system_header

struct sockaddr_un {
    sa_family_t sun_family;
    char sun_path[108];
};

#endif
