/* C11 7.14, on a GPU: only raise reaches a handler. */
#ifndef GPUFS_LIBC_SIGNAL_H
#define GPUFS_LIBC_SIGNAL_H
typedef int sig_atomic_t;
typedef void (*gpufs_signal_handler)(int);
#define SIG_DFL ((gpufs_signal_handler)0)
#define SIG_IGN ((gpufs_signal_handler)1)
#define SIG_ERR ((gpufs_signal_handler)-1)
#define SIGHUP 1
#define SIGINT 2
#define SIGQUIT 3
#define SIGILL 4
#define SIGTRAP 5
#define SIGABRT 6
#define SIGBUS 7
#define SIGFPE 8
#define SIGKILL 9
#define SIGUSR1 10
#define SIGSEGV 11
#define SIGUSR2 12
#define SIGPIPE 13
#define SIGALRM 14
#define SIGTERM 15
gpufs_signal_handler signal(int number, gpufs_signal_handler handler);
int raise(int number);
#endif
