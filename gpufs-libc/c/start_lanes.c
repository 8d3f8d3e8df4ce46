/* Where a program begins and ends on CPU lanes: it runs on one lane of a session, and its streams are the session's. The
 * linker gives it these functions in the place of the C library's (--wrap), which the session goes on to use.
 *
 * exit calls the handlers of atexit on the lane, whose streams they may use, and leaves main; the process ends when the
 * session has written everything. abort, a failed assertion and a fault write what was printed before, too, and then end
 * the process by their signal.
 */
#define _GNU_SOURCE
#include <gpufs/host.h>
#include <gpufs/stdio.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int __real_main(int argc, char **argv, char **envp);
_Noreturn void __real_exit(int status);
_Noreturn void __real__exit(int status);
_Noreturn void __real_abort(void);

#define HANDLERS 256
static void (*handlers[HANDLERS])(void);
static void (*quick_handlers[HANDLERS])(void);
static size_t registered, quick_registered;

static struct {
    int argc;
    char **argv, **envp;
    int status;
    volatile sig_atomic_t is_running;
    volatile sig_atomic_t signal;
    sigjmp_buf end;
} program;

/* Leaves the lane. */
static _Noreturn void leave(int status, int signal) {
    program.status = status;
    program.signal = signal;
    program.is_running = 0;
    siglongjmp(program.end, 1);
}

int __wrap_atexit(void (*handler)(void)) {
    if (registered == HANDLERS) {
        return -1;
    }
    handlers[registered++] = handler;
    return 0;
}

int __wrap_at_quick_exit(void (*handler)(void)) {
    if (quick_registered == HANDLERS) {
        return -1;
    }
    quick_handlers[quick_registered++] = handler;
    return 0;
}

_Noreturn void __wrap_exit(int status) {
    if (!program.is_running) {
        __real_exit(status);
    }
    while (registered != 0) {
        handlers[--registered]();
    }
    leave(status, 0);
}

_Noreturn void __wrap_quick_exit(int status) {
    while (quick_registered != 0) {
        quick_handlers[--quick_registered]();
    }
    leave(status, 0);
}

_Noreturn void __wrap__exit(int status) {
    if (!program.is_running) {
        __real__exit(status);
    }
    leave(status, 0);
}
_Noreturn void __wrap__Exit(int status) { __wrap__exit(status); }

_Noreturn void __wrap_abort(void) {
    if (!program.is_running) {
        __real_abort();
    }
    leave(0, SIGABRT);
}

_Noreturn void __wrap___assert_fail(const char *text, const char *file, unsigned line, const char *function) {
    const char *slash = strrchr(program.argv[0], '/');
    gpufs_fprintf(gpufs_stderr(gpufs_raw_used_session()), "%s: %s:%u: %s: Assertion `%s' failed.\n",
                  slash != NULL ? slash + 1 : program.argv[0], file, line, function, text);
    __wrap_abort();
}

/* A fault of the program's own ends the lane. Another, such as one of the session's threads, ends the process. */
static void fault(int signal_number) {
    if (!program.is_running) {
        signal(signal_number, SIG_DFL);
        raise(signal_number);
        return;
    }
    leave(0, signal_number);
}

static void lane(gpufs_session *session, void *argument) {
    (void)session;
    (void)argument;
    /* Of the OS thread that the lane runs on. */
    static char signal_stack[64 * 1024];
    stack_t stack = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack};
    sigaltstack(&stack, NULL);
    if (sigsetjmp(program.end, 1) == 0) {
        program.is_running = 1;
        __wrap_exit(__real_main(program.argc, program.argv, program.envp));
    }
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, NULL);
}

/* Writes to the standard error without streams: the names of C's belong to the session, which may not be there. */
static void put(const char *text) {
    size_t bytes = strlen(text);
#if defined(__x86_64__)
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(1L), "D"(2L), "S"(text), "d"(bytes) : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long number __asm__("x8") = 64;
    register long descriptor __asm__("x0") = 2;
    register const char *from __asm__("x1") = text;
    register size_t count __asm__("x2") = bytes;
    __asm__ volatile("svc 0" : "+r"(descriptor) : "r"(number), "r"(from), "r"(count) : "memory");
#else
    (void)!write(2, text, bytes);
#endif
}

static void tell(const char *what) {
    put("gpufs: ");
    put(what);
    put(": ");
    put(gpufs_last_error());
    put("\n");
}

static int trouble(const char *what) {
    tell(what);
    return 125;
}

int __wrap_main(int argc, char **argv, char **envp) {
    program.argc = argc;
    program.argv = argv;
    program.envp = envp;
    gpufs_options options = {.size = sizeof options, .rings = 1, .threads = 1, .warp_width = 1, .quiet = 1};
    const char *bytes = getenv("GPUFS_PROGRAM_STACK");
    options.stack_bytes = bytes != NULL ? strtoull(bytes, NULL, 10) : 8 << 20;
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, &options);
    if (host == NULL) {
        return trouble("opening a session");
    }
    struct sigaction action = {.sa_handler = fault, .sa_flags = SA_ONSTACK | SA_NODEFER};
    const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (size_t at = 0; at < sizeof faults / sizeof faults[0]; ++at) {
        sigaction(faults[at], &action, NULL);
    }
    if (gpufs_host_use(host) != 0 || gpufs_host_launch(host, 1, 1, lane, NULL) != 0) {
        return trouble("starting the program");
    }
    if (gpufs_host_synchronize(host) != 0) {
        tell(argv[0]);
        program.status = program.status != 0 ? program.status : 1;
    }
    gpufs_host_close(host);
    if (program.signal != 0) {
        signal(program.signal, SIG_DFL);
        raise(program.signal);
    }
    return program.status;
}
