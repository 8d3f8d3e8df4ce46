/* What POSIX's <unistd.h> has beside files, on a GPU. Numbers of processes and users are those of the process on the host
 * that runs the program. */
#ifndef GPUFS_LIBC_UNISTD_H
#define GPUFS_LIBC_UNISTD_H
#include <sys/types.h>
extern char **environ;
pid_t getpid(void);
pid_t getppid(void);
uid_t getuid(void);
uid_t geteuid(void);
gid_t getgid(void);
gid_t getegid(void);
/* By the GPU's clock: 0, as no signal ends it. */
unsigned sleep(unsigned seconds);
int usleep(useconds_t microseconds);
_Noreturn void _exit(int status);
#define _SC_ARG_MAX 0
#define _SC_CLK_TCK 2
#define _SC_OPEN_MAX 4
#define _SC_PAGESIZE 30
#define _SC_PAGE_SIZE _SC_PAGESIZE
#define _SC_NPROCESSORS_CONF 83
#define _SC_NPROCESSORS_ONLN 84
#if defined(_GNU_SOURCE) && !defined(TEMP_FAILURE_RETRY)
/* No signal interrupts a call. */
#define TEMP_FAILURE_RETRY(expression) (expression)
#endif
/* A program has one processor, a thread of the GPU. -1 with EINVAL for what has no name above. */
long sysconf(int name);
int getpagesize(void);
#endif
