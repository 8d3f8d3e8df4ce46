/* <sys/wait.h>, on a GPU: what a status of pclose(3) says. A GPU starts no process itself. */
#ifndef GPUFS_LIBC_SYS_WAIT_H
#define GPUFS_LIBC_SYS_WAIT_H
#define WEXITSTATUS(status) (((status) >> 8) & 255)
#define WTERMSIG(status) ((status) & 127)
#define WIFEXITED(status) (WTERMSIG(status) == 0)
#define WIFSIGNALED(status) ((signed char)(((status) & 127) + 1) >> 1 > 0)
#define WIFSTOPPED(status) (((status) & 255) == 127)
#define WSTOPSIG(status) WEXITSTATUS(status)
#define WCOREDUMP(status) ((status) & 128)
#endif
