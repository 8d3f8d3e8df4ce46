/* C11 7.14, on a GPU: only raise reaches a handler. */
#ifndef GPUFS_LIBC_SIGNAL_H
#define GPUFS_LIBC_SIGNAL_H
#include <sys/types.h>
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
#define SIGSTKFLT 16
#define SIGCHLD 17
#define SIGCONT 18
#define SIGSTOP 19
#define SIGTSTP 20
#define SIGTTIN 21
#define SIGTTOU 22
#define SIGURG 23
#define SIGXCPU 24
#define SIGXFSZ 25
#define SIGVTALRM 26
#define SIGPROF 27
#define SIGWINCH 28
#define SIGIO 29
#define SIGPWR 30
#define SIGSYS 31
#define NSIG 65
gpufs_signal_handler signal(int number, gpufs_signal_handler handler);
int raise(int number);
/* POSIX's signals, of which the same is true. */
typedef unsigned long sigset_t;
struct sigaction {
    gpufs_signal_handler sa_handler;
    sigset_t sa_mask;
    int sa_flags;
};
#define SA_RESTART 0x10000000
#define SA_NODEFER 0x40000000
#define SA_RESETHAND (-0x7fffffff - 1)
#define SIG_BLOCK 0
#define SIG_UNBLOCK 1
#define SIG_SETMASK 2
int sigaction(int number, const struct sigaction *__restrict action, struct sigaction *__restrict before);
int sigprocmask(int how, const sigset_t *__restrict set, sigset_t *__restrict before);
int sigpending(sigset_t *into);
/* To the program itself; ESRCH for another. */
int kill(pid_t process, int number);
static __inline__ int sigemptyset(sigset_t *set) { return *set = 0, 0; }
static __inline__ int sigfillset(sigset_t *set) { return *set = ~0ul, 0; }
static __inline__ int sigaddset(sigset_t *set, int number) { return *set |= 1ul << (number - 1), 0; }
static __inline__ int sigdelset(sigset_t *set, int number) { return *set &= ~(1ul << (number - 1)), 0; }
static __inline__ int sigismember(const sigset_t *set, int number) { return (int)(*set >> (number - 1) & 1); }
#endif
