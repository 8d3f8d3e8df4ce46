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

char **environ;

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

char *getenv(const char *name) {
    size_t length = strlen(name);
    for (char **variable = environ; length != 0 && *variable != NULL; ++variable) {
        if (strncmp(*variable, name, length) == 0 && (*variable)[length] == '=') {
            return *variable + length + 1;
        }
    }
    return NULL;
}

/* A GPU starts no process. */
int system(const char *command) {
    if (command == NULL) {
        return 0;
    }
    gpufs_libc_errno_(ENOSYS);
    return -1;
}

/* No signal reaches a program on a GPU but those that it raises itself. */
static gpufs_signal_handler actions[32];

gpufs_signal_handler signal(int number, gpufs_signal_handler handler) {
    if (number <= 0 || number >= 32) {
        gpufs_libc_errno_(EINVAL);
        return SIG_ERR;
    }
    gpufs_signal_handler before = actions[number];
    actions[number] = handler;
    return before;
}

int raise(int number) {
    if (number <= 0 || number >= 32) {
        gpufs_libc_errno_(EINVAL);
        return -1;
    }
    gpufs_signal_handler handler = actions[number];
    if (handler == SIG_DFL) {
        if (number == SIGABRT) {
            abort();
        }
        end(GPUFS_PROGRAM_EXITED, 128 + number);
    }
    if (handler != SIG_IGN) {
        actions[number] = SIG_DFL;
        handler(number);
    }
    return 0;
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
