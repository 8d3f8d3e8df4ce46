/* Sessions, for C (C99) and C++ programs: link libgpufs.
 *
 * On a GPU: gpufs_host_open, gpufs_host_begin, a kernel of your own launched with gpufs_host_session(), gpufs_host_synchronize, gpufs_host_close.
 * On CPU lanes: gpufs_host_open, gpufs_host_launch, gpufs_host_synchronize, gpufs_host_close. include/README.md has whole programs.
 *
 * What gpufs_host_session and gpufs_host_fopen give for a GPU are the GPU's: they are for kernels, and the calls of <gpufs/stdio.h> and
 * <gpufs/file.h> must not be made with them on the host. For CPU lanes the host may make them, too.
 *
 * Functions that fail return -1 or null, set errno, and leave a text in gpufs_last_error(). A null host is EINVAL.
 *
 * Threads: any function may be called from any thread; calls for one host wait for each other. gpufs_host_close is the last use of its host,
 * as free is of memory. errno and gpufs_last_error() are the calling thread's own.
 *
 * The end of the process: where it ends by exit(3) or the return of main with a host open, what calls on its streams had accepted is written, as
 * that of C's own streams is. Kernels that still run are waited for, up to ten seconds in all; of kernels on CPU lanes that run on, what they
 * had written until then is in the files, of kernels on a GPU it is lost, and a line on the standard error says so. A host may still be closed by
 * handlers and destructors that run later. _exit(2), quick_exit(3), abort(3), signals and execve(2) write nothing.
 *
 * fork(2): a host belongs to the process that opened it. In a child each function fails with EPERM, gpufs_host_close too, and does nothing; the
 * calls of <gpufs/stdio.h> and <gpufs/file.h> with its streams and files fail with EBADF, EMFILE for opening. A child may open hosts of its own, on
 * CPU lanes; CUDA allows no GPU in a child of a process that used one. Descriptors of the rings close on execve(2); a child that lives on
 * without it keeps the rings of its parent open until it ends.
 */
#ifndef GPUFS_HOST_H
#define GPUFS_HOST_H

#include <gpufs/gpufs.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open session, as the host holds it. */
typedef struct gpufs_host gpufs_host;

/* Where kernels run. */
#define GPUFS_CPU 0
/* An NVIDIA GPU. gpufs uses its primary context, as the CUDA runtime does. */
#define GPUFS_CUDA 1
/* An AMD GPU, through HIP: in libgpufs_hip, which a program links in place of libgpufs; in libgpufs it is ENODEV. It compiles and links, and no
 * AMD hardware has run it. */
#define GPUFS_HIP 2
/* The GPU that a file of CUDA or HIP is compiled for; HIP compiles for NVIDIA GPUs, too. */
#if defined(__HIP__) || defined(__HIP_PLATFORM_AMD__)
#define GPUFS_GPU GPUFS_HIP
#elif defined(__CUDACC__)
#define GPUFS_GPU GPUFS_CUDA
#endif

/* Who serves the rings. */
#define GPUFS_MODE_BEST 0    /* the best of the following that works here; on CPU lanes with fewer than eight cores from ENTER on */
#define GPUFS_MODE_SQPOLL 1  /* the kernel's own thread */
#define GPUFS_MODE_ENTER 2   /* a host thread calls io_uring_enter(2) */
#define GPUFS_MODE_THREADS 3 /* host threads, without io_uring */

/* Who allocates the rings. */
#define GPUFS_RING_MEMORY_DEFAULT 0 /* the first of the following that works here */
#define GPUFS_RING_MEMORY_KERNEL 1  /* the kernel; not for an AMD GPU */
#define GPUFS_RING_MEMORY_CALLER 2  /* gpufs; Linux 6.5, or 6.10 for more than a page */
#define GPUFS_RING_MEMORY_RUNTIME 3 /* the GPU's runtime, as pinned memory, with the same kernels; on CPU lanes the same as _CALLER */

/* Sizes and choices. Zero everything, set `size`, then what matters: `gpufs_options options = {.size = sizeof options, .rings = 2};`. 0 stands for
 * the default. Later versions append fields; `size` keeps programs and libraries of different versions together. */
typedef struct gpufs_options {
    size_t size;                  /* sizeof(gpufs_options) */
    uint32_t rings;               /* 1 to 64; default half the cores, 1 to 4 */
    uint32_t ring_entries;        /* operations in flight of a ring: a power of two to 32768; default 64 more than stream buffers, at least 1024 */
    uint32_t mode;                /* GPUFS_MODE_... */
    uint32_t ring_memory;         /* GPUFS_RING_MEMORY_... */
    uint64_t buffer_bytes;        /* pinned memory for data, half for calls, half for streams; default 16 MiB for calls, 40 MiB for streams */
    uint32_t stream_buffer_bytes; /* one stream buffer: a power of two, 4 KiB to 1 MiB; default 128 KiB, less where streams are many */
    uint32_t blocks_per_stream;   /* buffers of a stream that writes much: 1, 2, 4, 8 or 16; default 16 */
    uint32_t files;               /* open at once, the three standard ones too; default 1024 */
    uint32_t streams;             /* likewise, each with a buffer of its own; default 256, or as many as buffers suffice for */
    uint32_t registered_buffers;  /* default 64 */
    uint32_t idle_ms;             /* after how long an idle SQPOLL thread sleeps; default 1000 */
    uint64_t deadline_ms;         /* after how long without progress a wait on the device gives up; default never */
    uint32_t warp_width;          /* CPU lanes: lanes of a warp, a power of two up to 64; default 32 */
    uint32_t threads;             /* CPU lanes: OS threads; default as many as there are cores */
    uint64_t stack_bytes;         /* of a lane or GPU thread; default 128 KiB on CPU lanes, 8 KiB on a GPU */
    uint32_t quiet;               /* 1: do not tell of failed calls (see gpufs_host_failures), nor once that the best mode is refused, on the
                                   * standard error; GPUFS_QUIET in the environment does without the latter */
    uint32_t reserved;            /* 0 */
} gpufs_options;

/* Opens a session. `device`: GPUFS_CPU, GPUFS_CUDA or GPUFS_HIP; `ordinal`: which GPU, from 0, as cudaSetDevice and hipSetDevice count; `options` may be null.
 * Null on error: EINVAL (a size that does not fit; the text says which and what would), ENODEV (no driver, no such GPU, or not built in), what
 * the system refuses. */
gpufs_host *gpufs_host_open(int device, unsigned ordinal, const gpufs_options *options);

/* Waits for the kernels, writes what they left, and closes. 0, or -1 as gpufs_host_synchronize; closed in any case. */
int gpufs_host_close(gpufs_host *host);

/* What kernels take as their session: an address on the device. Null for a null host, and on a GPU outside gpufs_host_begin and
 * gpufs_host_synchronize: a kernel that was launched without the one gets EINVAL from its calls. */
gpufs_session *gpufs_host_session(const gpufs_host *host);

/* A kernel for CPU lanes: called once for each thread of the grid; gpufs_thread() says which. It may call everything of <gpufs/stdio.h> and
 * <gpufs/file.h>. It runs on a stack of gpufs_options.stack_bytes, shares its OS thread with other lanes (thread-locals too), must not let a C++
 * exception out, and calls gpufs_nap in a loop that waits for another thread. */
typedef void (*gpufs_kernel)(gpufs_session *session, void *argument);

/* Starts a kernel on CPU lanes and returns. Several may run at once. `argument` is every thread's, and stays until gpufs_host_synchronize. 0, or -1:
 * EINVAL (no threads, a null kernel, a session on a GPU). */
int gpufs_host_launch(gpufs_host *host, unsigned blocks, unsigned threads, gpufs_kernel kernel, void *argument);

/* Makes a session on a GPU ready for kernels that the program launches itself, with gpufs_host_session() as an argument. Call it before such
 * launches, again after each gpufs_host_synchronize; once is enough for many. 0 or -1. */
int gpufs_host_begin(gpufs_host *host);

/* Waits until every kernel has ended (on a GPU: everything on the device), then writes what their streams hold. 0, or -1 with the first error: a
 * stream's own errno (ENOSPC, EPIPE ...; the bytes are kept and tried again next time), EIO for a kernel that did not end well. */
int gpufs_host_synchronize(gpufs_host *host);

/* Opens a stream for kernels, as gpufs_fopen: what a kernel takes as its gpufs_file. Null on error: EBUSY between gpufs_host_begin and
 * gpufs_host_synchronize, else as gpufs_fopen. */
gpufs_file *gpufs_host_fopen(gpufs_host *host, const char *path, const char *mode);
/* Flushes and closes a stream that host or kernel opened. 0, or -1: EBADF, EBUSY as above, or what flushing met. */
int gpufs_host_fclose(gpufs_host *host, gpufs_file *file);

/* Gives kernels a file that the program has open, which stays its own: the descriptor for gpufs_pread and its kin, or -1 (EBADF, EMFILE). */
int gpufs_host_register_file(gpufs_host *host, int descriptor);
/* Takes it back. No kernel may be using it. 0, or -1: EBADF. */
int gpufs_host_unregister_file(gpufs_host *host, int descriptor);
/* Makes a buffer of at least `bytes` bytes, in whole pages, that kernels and the system use in place, without a copy, at one address. Freed with
 * the session. Null on error: ENOMEM, EBUSY (kernels are running, or the table is full). */
void *gpufs_host_buffer(gpufs_host *host, size_t bytes);

/* What the session has done since it began, summed over its rings. Exact while no kernel runs. */
typedef struct gpufs_statistics {
    size_t size; /* sizeof(gpufs_statistics), set by the caller */
    uint32_t rings;
    uint32_t mode;          /* GPUFS_MODE_...: who serves them */
    uint64_t operations;    /* submitted */
    uint64_t publications;  /* stores of a submission queue's tail */
    uint64_t completions;   /* drained */
    uint64_t empty_looks;   /* looks at a completion queue that found it empty */
    uint64_t stale;         /* completions that nobody waited for: 0 */
    uint64_t slot_waits;    /* times that a warp found no free slot */
    uint64_t bytes_read;
    uint64_t bytes_written;
    uint64_t wake_ups;      /* of sleeping SQPOLL threads */
    uint64_t failed_calls;  /* of kernels and of the host; UINT64_MAX after a fault of a GPU, whose memory they were counted in */
} gpufs_statistics;

/* 0, or -1: EINVAL. */
int gpufs_host_statistics(const gpufs_host *host, gpufs_statistics *into);

/* How often a call failed with an error. */
typedef struct gpufs_failure {
    const char *call;  /* "fopen", a constant */
    int error;         /* ENOMEM ...; 0 for a number that Linux does not have */
    uint32_t reserved;
    uint64_t count;    /* since the session began */
} gpufs_failure;

/* Which calls failed: how many kinds of failure there are, of which `into` gets as many as `room` says. The end of a file is none. -1: EINVAL;
 * ENODATA after a fault of a GPU. A program that calls neither this nor gpufs_host_statistics is told when it closes the session, or ends: a line for each
 * kind on the standard error, unless gpufs_options.quiet is 1. A call on null, or on a pointer that is no stream, belongs to no session and is
 * not counted. */
int gpufs_host_failures(const gpufs_host *host, gpufs_failure *into, size_t room);

/* Says in words what the session runs on, who serves its rings, and why nobody better, cut to `bytes` with the NUL: the length of the whole text,
 * as snprintf. -1: EINVAL. */
int gpufs_host_describe(const gpufs_host *host, char *into, size_t bytes);

/* What the last call of this thread in this header that failed says: for people, in one line. Good until the next one fails. Never null. */
const char *gpufs_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
