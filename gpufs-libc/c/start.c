/* Where a program begins and ends on a GPU: the kernel that the host starts, exit, abort, errno and the environment.
 * gpufs compiles this file with each program: GPUFS_MAIN_ARGUMENTS says how main is declared, as PTX has no call with
 * another number of arguments.
 */
#define GPUFS_LIBC_BUILDING
#include "program.h"
#include <assert.h>
#include <errno.h>
#include <gpufs/stdio.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct gpufs_program *gpufs_program_;

#if GPUFS_MAIN_ARGUMENTS == 0
extern int main(void);
#define CALL_MAIN(program) main()
#elif GPUFS_MAIN_ARGUMENTS == 2
extern int main(int argc, char **argv);
#define CALL_MAIN(program) main((int)(program)->argc, (program)->argv)
#else
extern int main(int argc, char **argv, char **envp);
#define CALL_MAIN(program) main((int)(program)->argc, (program)->argv, (program)->envp)
#endif

extern char **environ;

void gpufs_libc_errno_(int error) { *gpufs_raw_errno() = error; }

/* Ends the lane. The host then writes what the streams hold. */
static _Noreturn void end(uint32_t state, int status) {
    gpufs_program_->status = status;
    gpufs_program_->state = state;
#if defined(__NVPTX__)
    __asm__ volatile("exit;" ::: "memory");
#else
    __builtin_amdgcn_endpgm();
#endif
    __builtin_unreachable();
}

#define HANDLERS 256
static void (*handlers[HANDLERS])(void);
static void (*quick_handlers[HANDLERS])(void);
static size_t registered, quick_registered;

int atexit(void (*handler)(void)) {
    if (registered == HANDLERS) {
        return -1;
    }
    handlers[registered++] = handler;
    return 0;
}

int at_quick_exit(void (*handler)(void)) {
    if (quick_registered == HANDLERS) {
        return -1;
    }
    quick_handlers[quick_registered++] = handler;
    return 0;
}

/* A handler may register others, which run next. */
_Noreturn void exit(int status) {
    while (registered != 0) {
        handlers[--registered]();
    }
    end(GPUFS_PROGRAM_EXITED, status);
}

_Noreturn void quick_exit(int status) {
    while (quick_registered != 0) {
        quick_handlers[--quick_registered]();
    }
    end(GPUFS_PROGRAM_EXITED, status);
}

/* The host writes the streams after these, too, where C leaves that open. */
_Noreturn void _Exit(int status) { end(GPUFS_PROGRAM_EXITED, status); }
_Noreturn void _exit(int status) { end(GPUFS_PROGRAM_EXITED, status); }
_Noreturn void abort(void) { end(GPUFS_PROGRAM_ABORTED, 0); }

static void tell(const char *text) { (void)gpufs_fputs(text, gpufs_stderr(gpufs_raw_used_session())); }

_Noreturn void gpufs_die_(const char *text) {
    tell(text);
    abort();
}

_Noreturn void gpufs_assertion_failed(const char *text, const char *file, unsigned line, const char *function) {
    char number[12];
    char *digit = number + sizeof number;
    for (*--digit = 0; line != 0 && digit > number; line /= 10) {
        *--digit = (char)('0' + line % 10);
    }
    const char *program = gpufs_program_->argc != 0 ? gpufs_program_->argv[0] : "";
    const char *slash = strrchr(program, '/');
    const char *parts[] = {slash != NULL ? slash + 1 : program, ": ", file,          ":", digit, ": ", function,
                           ": Assertion `",                     text, "' failed.\n"};
    for (size_t part = 0; part < sizeof parts / sizeof parts[0]; ++part) {
        tell(parts[part]);
    }
    abort();
}

/* A jump that is under way, and where it leads: tools/gpufs/src/build/jumps.rs has the rest. */
int gpufs_jump_pending_, gpufs_jump_value_, gpufs_jump_place_;
void *gpufs_jump_frame_;

/* Returns, and so do its callers. */
void gpufs_longjmp_(struct gpufs_jump *environment, int value) {
    gpufs_jump_frame_ = environment->frame;
    gpufs_jump_place_ = (int)environment->place;
    gpufs_jump_value_ = value != 0 ? value : 1;
    gpufs_jump_pending_ = 1;
}

/* No signal reaches a program on a GPU but those that it raises itself. */
static struct sigaction actions[32];
/* Signals that are held back, and those of them that were raised. */
static sigset_t held, pending;

static int is_signal(int number) {
    if (number <= 0 || number >= 32) {
        gpufs_libc_errno_(EINVAL);
        return 0;
    }
    return 1;
}

int sigaction(int number, const struct sigaction *restrict action, struct sigaction *restrict before) {
    if (!is_signal(number) || (action != NULL && (number == SIGKILL || number == SIGSTOP))) {
        gpufs_libc_errno_(EINVAL);
        return -1;
    }
    if (before != NULL) {
        *before = actions[number];
    }
    if (action != NULL) {
        actions[number] = *action;
    }
    return 0;
}

/* The handler stays, as with BSD and glibc. */
gpufs_signal_handler signal(int number, gpufs_signal_handler handler) {
    struct sigaction action = {.sa_handler = handler}, before;
    return sigaction(number, &action, &before) == 0 ? before.sa_handler : SIG_ERR;
}

int raise(int number) {
    if (!is_signal(number)) {
        return -1;
    }
    if (sigismember(&held, number)) {
        sigaddset(&pending, number);
        return 0;
    }
    gpufs_signal_handler handler = actions[number].sa_handler;
    if (handler == SIG_DFL) {
        /* Those that a process goes on after. */
        if (number == SIGCHLD || number == SIGCONT || number == SIGURG || number == SIGWINCH) {
            return 0;
        }
        if (number == SIGABRT) {
            abort();
        }
        end(GPUFS_PROGRAM_EXITED, 128 + number);
    }
    if (handler != SIG_IGN) {
        sigset_t before = held;
        int flags = actions[number].sa_flags;
        held |= actions[number].sa_mask;
        if ((flags & SA_NODEFER) == 0) {
            sigaddset(&held, number);
        }
        if (flags & SA_RESETHAND) {
            actions[number].sa_handler = SIG_DFL;
        }
        handler(number);
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
    }
    return 0;
}

int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict before) {
    if (before != NULL) {
        *before = held;
    }
    if (set == NULL) {
        return 0;
    }
    if (how == SIG_BLOCK) {
        held |= *set;
    } else if (how == SIG_UNBLOCK) {
        held &= ~*set;
    } else if (how == SIG_SETMASK) {
        held = *set;
    } else {
        gpufs_libc_errno_(EINVAL);
        return -1;
    }
    for (int number = 1; number < 32; ++number) {
        if (sigismember(&pending, number) && !sigismember(&held, number)) {
            sigdelset(&pending, number);
            (void)raise(number);
        }
    }
    return 0;
}

int sigpending(sigset_t *into) {
    *into = pending;
    return 0;
}

/* A program can signal itself; what other processes there are it does not see. */
int kill(pid_t process, int number) {
    if (process != gpufs_program_->process[0] && process != 0) {
        gpufs_libc_errno_(ESRCH);
        return -1;
    }
    return number == 0 ? 0 : raise(number);
}

#if defined(__NVPTX__)
__attribute__((nvptx_kernel)) void gpufs_program_start(gpufs_session *session, struct gpufs_program *program) {
    struct gpufs_program *const *argument = &program;
#else
/* Arguments come by address on an AMD GPU. */
__attribute__((amdgpu_kernel)) void gpufs_program_start(gpufs_session *session,
                                                        struct gpufs_program *const *argument) {
#endif
    gpufs_program_ = *argument;
    gpufs_program_->state = GPUFS_PROGRAM_RUNNING;
    environ = gpufs_program_->envp;
    gpufs_raw_use_session(session);
    int status = CALL_MAIN(gpufs_program_);
    if (gpufs_jump_pending_) {
        gpufs_jump_pending_ = 0;
        gpufs_die_("longjmp: the function that called setjmp has returned, or none has\n");
    }
    exit(status);
}
