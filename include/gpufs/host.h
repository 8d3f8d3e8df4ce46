/* Sessions, for C (C99) and C++ programs: link libgpufs. include/README.md has whole programs.
 *
 * On a GPU: gpufs_host_open, gpufs_host_begin, a kernel of your own launched with gpufs_host_session() as an
 * argument, gpufs_host_synchronize, gpufs_host_close. On CPU lanes: gpufs_host_open, gpufs_host_launch,
 * gpufs_host_synchronize, gpufs_host_close.
 *
 * Results. Functions that fail return -1 or null, set errno, and leave a text in gpufs_last_error(). A null host is
 * EINVAL.
 *
 * Handles. On a GPU, what gpufs_host_session and gpufs_host_fopen return is for kernels only: the host must not call
 * <gpufs/stdio.h> or <gpufs/file.h> with it. On CPU lanes the host may.
 *
 * Threads. Any function may be called from any thread. Calls for one host wait for each other. gpufs_host_close is
 * the last use of its host, as free is of memory. errno and gpufs_last_error() belong to the calling thread.
 *
 * The end of the process. If the process ends by exit(3) or the return of main with a host open, gpufs writes the
 * bytes that calls on its streams had accepted, as C does for its own streams. It waits for running kernels, up to
 * ten seconds in all. If kernels still run then, a line on the standard error says so: the files hold what kernels on
 * CPU lanes had written until then; what kernels on a GPU had written is lost. Handlers and destructors that run
 * later may still close the host. _exit(2), quick_exit(3), abort(3), signals and execve(2) write nothing.
 *
 * fork(2). A host belongs to the process that opened it. In a child every function of this header fails with EPERM
 * and does nothing, gpufs_host_close too. Calls of <gpufs/stdio.h> and <gpufs/file.h> with the host's streams and
 * files fail with EBADF; opening fails with EMFILE. A child may open hosts of its own on CPU lanes; CUDA allows no
 * GPU in a child of a process that used one. The rings' descriptors close on execve(2). A child that lives on without
 * execve keeps the rings of its parent open until it ends.
 */
#ifndef GPUFS_HOST_H
#define GPUFS_HOST_H

#if defined(__CUDACC_RTC__) || defined(__HIPCC_RTC__)
#error "<gpufs/host.h> is for the host's code: what is compiled at run time is device code, which includes <gpufs/stdio.h> and others"
#endif

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
/* An AMD GPU, through HIP. Link libgpufs_hip in place of libgpufs, where this is ENODEV. It compiles and links; no
 * AMD hardware has run it. */
#define GPUFS_HIP 2
/* The kind of GPU that a CUDA or HIP file is compiled for. (HIP compiles for NVIDIA GPUs, too.) */
#if defined(__HIP__) || defined(__HIP_PLATFORM_AMD__)
#define GPUFS_GPU GPUFS_HIP
#elif defined(__CUDACC__)
#define GPUFS_GPU GPUFS_CUDA
#endif

/* The version of the library: GPUFS_VERSION of the headers that it was built with. Never fails. */
unsigned gpufs_version(void);

/* What this machine can do for sessions, and what to do about each lack, in words, as `gpufs doctor` says it; how each
 * of `files` is served, and how fast. It takes a second, and three more for each mode whose rings do not answer.
 * `status`, if it is not null, gets 0 where nothing is lacking, 1 where sessions work with less than they could, 2 where
 * none can be opened. Cut to `bytes` with the NUL. The length of the whole text, as snprintf(3), or -1: EINVAL (a null
 * file). */
int gpufs_doctor(const char *const *files, size_t file_count, int *status, char *into, size_t bytes);

/* What serves the rings. */
#define GPUFS_MODE_BEST 0    /* the first of these that works here; on CPU lanes with fewer than 8 cores: from ENTER */
#define GPUFS_MODE_SQPOLL 1  /* the kernel's own thread */
#define GPUFS_MODE_ENTER 2   /* a host thread, which calls io_uring_enter(2) */
#define GPUFS_MODE_THREADS 3 /* host threads, without io_uring */

/* What allocates the rings. */
#define GPUFS_RING_MEMORY_DEFAULT 0 /* the first of these that works here */
#define GPUFS_RING_MEMORY_KERNEL 1  /* the kernel; not for an AMD GPU */
#define GPUFS_RING_MEMORY_CALLER 2  /* gpufs; Linux 6.5, or 6.10 for more than a page */
#define GPUFS_RING_MEMORY_RUNTIME 3 /* the GPU's runtime, pinned, on the same kernels; CPU lanes: as _CALLER */

/* What is not told on the standard error. */
#define GPUFS_QUIET_ALL 1      /* failed calls (gpufs_host_failures has them), and that a better mode is refused */
#define GPUFS_QUIET_FAILURES 2 /* failed calls */
#define GPUFS_QUIET_FALLBACK 3 /* that a better mode is refused; so does GPUFS_QUIET in the environment, not empty */

/* Whether bytes that a call on a stream has accepted outlive a fault of the device. */
#define GPUFS_SURVIVES_DEFAULT 0 /* yes on a GPU, no on CPU lanes */
#define GPUFS_SURVIVES_YES 1     /* gpufs_host_synchronize then writes them */
#define GPUFS_SURVIVES_NO 2      /* calls are faster */

/* No bytes at all, where 0 would be the default. */
#define GPUFS_NO_BYTES UINT64_MAX

/* What may be done below a directory of a sandbox. */
#define GPUFS_TREE_READ 1   /* opening for reading, listing, asking for properties */
#define GPUFS_TREE_WRITE 2  /* also writing and truncating files that exist */
#define GPUFS_TREE_CREATE 3 /* also making, renaming, linking and removing entries, and their permissions */

/* A directory with all that is below it. */
typedef struct gpufs_tree {
    const char *path;  /* of a directory that exists */
    uint32_t access;   /* GPUFS_TREE_... */
    uint32_t reserved; /* 0 */
} gpufs_tree;

GPUFS_SIZE_(gpufs_tree, 16);
GPUFS_OFFSET_(gpufs_tree, path, 0);
GPUFS_OFFSET_(gpufs_tree, access, 8);
GPUFS_OFFSET_(gpufs_tree, reserved, 12);

/* What sockets of a sandbox may do with an address. */
#define GPUFS_SOCKET_TCP_TO 1 /* connect to it */
#define GPUFS_SOCKET_TCP_AT 2 /* listen there, and take connections from anyone */
#define GPUFS_SOCKET_UDP_TO 3 /* send messages to it */
#define GPUFS_SOCKET_UDP_AT 4 /* be bound to it, and receive from anyone */

/* An address that sockets of a sandbox may have or reach. */
typedef struct gpufs_reach {
    const char *address; /* "127.0.0.1:80", "[::1]:80"; 0.0.0.0 and [::] are each of their family, port 0 is each port */
    uint32_t what;       /* GPUFS_SOCKET_... */
    uint32_t reserved;   /* 0 */
} gpufs_reach;

GPUFS_SIZE_(gpufs_reach, 16);
GPUFS_OFFSET_(gpufs_reach, address, 0);
GPUFS_OFFSET_(gpufs_reach, what, 8);
GPUFS_OFFSET_(gpufs_reach, reserved, 12);

/* What kernels of a session may do: what is named here, beside the files and buffers that the host registers or opens
 * streams on, and nothing else. Linux holds it (SECURITY.md). What kernels may not do fails with EACCES. */
typedef struct gpufs_sandbox {
    size_t size;                 /* sizeof(gpufs_sandbox) */
    const gpufs_tree *trees;     /* may be null where there are none */
    size_t tree_count;
    const char *const *services; /* names of functions that kernels may call (gpufs_host_add_service) */
    size_t service_count;
    uint32_t standard_streams;   /* 1: also the standard streams of the process */
    uint32_t as_far_as_possible; /* 1: where this Linux lacks a part, opened without it, and told on the standard error;
                                  * 0: not opened (ENOTSUP) */
    const gpufs_reach *sockets;  /* TCP and UDP: whom kernels may reach, and where they may be reached; none without it */
    size_t socket_count;
    uint32_t socket_pairs;       /* 1: also socketpair */
    uint32_t reserved;           /* 0 */
} gpufs_sandbox;

GPUFS_SIZE_(gpufs_sandbox, 72);
GPUFS_OFFSET_(gpufs_sandbox, size, 0);
GPUFS_OFFSET_(gpufs_sandbox, trees, 8);
GPUFS_OFFSET_(gpufs_sandbox, tree_count, 16);
GPUFS_OFFSET_(gpufs_sandbox, services, 24);
GPUFS_OFFSET_(gpufs_sandbox, service_count, 32);
GPUFS_OFFSET_(gpufs_sandbox, standard_streams, 40);
GPUFS_OFFSET_(gpufs_sandbox, as_far_as_possible, 44);
GPUFS_OFFSET_(gpufs_sandbox, sockets, 48);
GPUFS_OFFSET_(gpufs_sandbox, socket_count, 56);
GPUFS_OFFSET_(gpufs_sandbox, socket_pairs, 64);
GPUFS_OFFSET_(gpufs_sandbox, reserved, 68);

/* Sizes and choices. Set everything to 0, set `size`, then the fields that matter: `gpufs_options options = {.size =
 * sizeof options, .rings = 2};`. 0 stands for the default. Later versions append fields; `size` lets programs and
 * libraries of different versions work together. */
typedef struct gpufs_options {
    size_t size;                  /* sizeof(gpufs_options) */
    uint32_t rings;               /* 1 to 64; default half the cores, 1 to 4 */
    uint32_t ring_entries;        /* operations in flight in a ring: a power of two to 32768; default 64 more than
                                   * stream buffers, at least 1024 */
    uint32_t mode;                /* GPUFS_MODE_... */
    uint32_t ring_memory;         /* GPUFS_RING_MEMORY_... */
    uint64_t buffer_bytes;        /* pinned memory for data, half for calls, half for streams; default 12 MiB for calls,
                                   * more with a cache of more than 48 MiB, 40 MiB for streams */
    uint32_t stream_buffer_bytes; /* one stream buffer: a power of two, 4 KiB to 1 MiB; default 128 KiB, less with many
                                   * streams */
    uint32_t blocks_per_stream;   /* buffers of a stream that writes much: 1, 2, 4, 8, 16 or 32; default 32 */
    uint32_t files;               /* open files, the three standard ones included; default 1024 */
    uint32_t streams;             /* open streams, the three standard ones included, each with a buffer of its own;
                                   * default 256, or as many as there are buffers for */
    uint32_t registered_buffers;  /* default 64 */
    uint32_t idle_ms;             /* an SQPOLL thread sleeps after this time without work; default 1000 */
    uint64_t deadline_ms;         /* a wait on the device gives up after this time without progress; default never */
    uint32_t warp_width;          /* CPU lanes: lanes of a warp, a power of two up to 64; default 32 */
    uint32_t threads;             /* CPU lanes: OS threads; default the number of cores */
    uint64_t stack_bytes;         /* of a lane or GPU thread; default 128 KiB on CPU lanes, 8 KiB on a GPU */
    uint32_t quiet;               /* GPUFS_QUIET_... */
    uint32_t reserved;            /* 0 */
    const gpufs_sandbox *sandbox; /* what kernels may do; read by gpufs_host_open. Null: what the process may do when the
                                   * session is opened; rights that it gives up later stay with the kernels
                                   * until gpufs_host_adopt_credentials */
    uint64_t wait_limit_ms;       /* a call that waits for another party (a pipe, a socket, a lock) fails with ETIMEDOUT
                                   * after this time; default never */
    uint64_t assembly_bytes;      /* device memory where warps put records together; default 8 MiB on a GPU, else none;
                                   * GPUFS_NO_BYTES */
    uint64_t read_ahead_bytes;    /* device memory for lines that are read ahead; default 8 MiB on a GPU, else none;
                                   * GPUFS_NO_BYTES */
    uint64_t seed;                /* CPU lanes: lanes run in an order that follows from this, for tests; default the
                                   * fastest order */
    uint32_t survives;            /* GPUFS_SURVIVES_... */
    uint32_t gpu_registers;       /* 16 to 255: of a thread of a kernel that the driver compiles from PTX; default the
                                   * compiler's choice */
    uint32_t resident_warps;      /* CPU lanes: warps that an OS thread has started and not ended; default 64 */
    uint32_t standard_output;     /* a descriptor, above 0, of what stands in for the standard output of kernels; the session has a
                                   * duplicate; not with a sandbox */
    uint64_t cache_bytes;         /* device memory for pages of files that are mapped (gpufs_host_map), 8 pages at least;
                                   * default none */
    uint32_t cache_page_bytes;    /* of such a page: a power of two, 4 KiB to 1 MiB; default 64 KiB */
    uint32_t reserved_again;      /* 0 */
    const char *trace;            /* a file for what the session itself does, which Perfetto opens (docs/tracing.md); read by
                                   * gpufs_host_open; %p in it is the number of the process. Null: what GPUFS_TRACE in the
                                   * environment names, else none */
    uint64_t trace_memory_bytes;  /* pinned memory for what kernels trace (<gpufs/trace.h>): 1 to 16 KiB of it are a warp's own,
                                   * and warps of a grid that has more of them than there are KiB write into the stream one
                                   * after the other; at most 1 GiB; default 256 KiB; GPUFS_NO_BYTES */
} gpufs_options;

GPUFS_SIZE_(gpufs_options, 176);
GPUFS_OFFSET_(gpufs_options, size, 0);
GPUFS_OFFSET_(gpufs_options, rings, 8);
GPUFS_OFFSET_(gpufs_options, ring_entries, 12);
GPUFS_OFFSET_(gpufs_options, mode, 16);
GPUFS_OFFSET_(gpufs_options, ring_memory, 20);
GPUFS_OFFSET_(gpufs_options, buffer_bytes, 24);
GPUFS_OFFSET_(gpufs_options, stream_buffer_bytes, 32);
GPUFS_OFFSET_(gpufs_options, blocks_per_stream, 36);
GPUFS_OFFSET_(gpufs_options, files, 40);
GPUFS_OFFSET_(gpufs_options, streams, 44);
GPUFS_OFFSET_(gpufs_options, registered_buffers, 48);
GPUFS_OFFSET_(gpufs_options, idle_ms, 52);
GPUFS_OFFSET_(gpufs_options, deadline_ms, 56);
GPUFS_OFFSET_(gpufs_options, warp_width, 64);
GPUFS_OFFSET_(gpufs_options, threads, 68);
GPUFS_OFFSET_(gpufs_options, stack_bytes, 72);
GPUFS_OFFSET_(gpufs_options, quiet, 80);
GPUFS_OFFSET_(gpufs_options, reserved, 84);
GPUFS_OFFSET_(gpufs_options, sandbox, 88);
GPUFS_OFFSET_(gpufs_options, wait_limit_ms, 96);
GPUFS_OFFSET_(gpufs_options, assembly_bytes, 104);
GPUFS_OFFSET_(gpufs_options, read_ahead_bytes, 112);
GPUFS_OFFSET_(gpufs_options, seed, 120);
GPUFS_OFFSET_(gpufs_options, survives, 128);
GPUFS_OFFSET_(gpufs_options, gpu_registers, 132);
GPUFS_OFFSET_(gpufs_options, resident_warps, 136);
GPUFS_OFFSET_(gpufs_options, standard_output, 140);
GPUFS_OFFSET_(gpufs_options, cache_bytes, 144);
GPUFS_OFFSET_(gpufs_options, cache_page_bytes, 152);
GPUFS_OFFSET_(gpufs_options, reserved_again, 156);
GPUFS_OFFSET_(gpufs_options, trace, 160);
GPUFS_OFFSET_(gpufs_options, trace_memory_bytes, 168);

/* Opens a session. `device`: GPUFS_CPU, GPUFS_CUDA or GPUFS_HIP. `ordinal`: which GPU, from 0, as cudaSetDevice and
 * hipSetDevice count. `options` may be null. Null on error: EINVAL (a size that does not fit: gpufs_last_error()
 * names it and its range), ENODEV (no driver, no such GPU, or not built in), what the system refuses. */
gpufs_host *gpufs_host_open(int device, unsigned ordinal, const gpufs_options *options);

/* Waits for the kernels, writes what they left buffered, and closes. 0, or -1 as gpufs_host_synchronize; the host is
 * closed in any case. */
int gpufs_host_close(gpufs_host *host);

/* The session that kernels take as an argument: an address on the device. Null for a null host, and on a GPU before
 * gpufs_host_begin and after gpufs_host_synchronize: calls of a kernel that gets null fail with EINVAL. */
gpufs_session *gpufs_host_session(const gpufs_host *host);

/* A kernel for CPU lanes: called once for each thread of the grid. gpufs_thread() is the thread's index. A kernel may
 * call everything of <gpufs/stdio.h> and <gpufs/file.h>. It runs on a stack of gpufs_options.stack_bytes, and shares
 * its OS thread, thread-locals included, with other lanes. It must not let a C++ exception out, and must call
 * gpufs_nap in a loop that waits for another thread. */
typedef void (*gpufs_kernel)(gpufs_session *session, void *argument);

/* Starts a kernel on CPU lanes and returns. Several may run at once. Every thread gets `argument`, which must stay
 * valid until gpufs_host_synchronize. 0, or -1: EINVAL (no threads, a null kernel, a session on a GPU). */
int gpufs_host_launch(gpufs_host *host, unsigned blocks, unsigned threads, gpufs_kernel kernel, void *argument);

/* Makes a session on a GPU ready for kernels that the program launches itself with gpufs_host_session() as an
 * argument. Call it before such launches, and again after each gpufs_host_synchronize. One call covers any number of
 * launches. 0 or -1. */
int gpufs_host_begin(gpufs_host *host);

/* Lets kernels have the rights that the calling thread has now: user, groups, capabilities, seccomp filters. Without this
 * call they may do what the process could do when the session was opened, whatever it gives up later. Call it from a
 * thread that has given up its rights, while no kernel runs. Files that are open stay so. 0, or -1: EBUSY (between a
 * launch or gpufs_host_begin and gpufs_host_synchronize, or operations in flight), what the system refuses to the fewer
 * rights. SECURITY.md says what is then. */
int gpufs_host_adopt_credentials(gpufs_host *host);

/* Makes the session the one that calls without a session go to: those of <gpufs/drop_in.h>. Null: none. 0, or -1.
 * CUDA and HIP files include <gpufs/use.h>, which has its contract. */
int gpufs_host_use(gpufs_host *host);

/* Waits until every kernel has ended (on a GPU: everything on the device), then writes what their streams hold. 0, or
 * -1 with the first error: a stream's own errno (ENOSPC, EPIPE ...; the bytes are kept and tried again next time),
 * EIO for a kernel that did not end well. */
int gpufs_host_synchronize(gpufs_host *host);

/* Opens a stream for kernels, as gpufs_fopen does. Null on error: EBUSY between gpufs_host_begin and
 * gpufs_host_synchronize, else as gpufs_fopen. */
gpufs_file *gpufs_host_fopen(gpufs_host *host, const char *path, const char *mode);
/* A stream for kernels on a file that the program has open (fdopen(3)): it begins where `descriptor` stands, or with "a" at
 * the end. The stream has a duplicate, which its end closes; `descriptor` stays the program's. Null on error: EBADF,
 * EFAULT (null mode), EBUSY as above, else as gpufs_fdopen. */
gpufs_file *gpufs_host_fdopen(gpufs_host *host, int descriptor, const char *mode);
/* A descriptor of the process for a stream's file (fileno(3)), after a flush. It is a duplicate: the program closes it, and
 * it stays when stream and session are closed. It stands where the stream does, if the file is seekable and was not opened
 * to append; the stream goes on where it was. A descriptor of gpufs_host_register_file needs no way back: the program has
 * the one that it gave. -1: EBADF (also: a stream on memory), EMFILE, EBUSY as above, or the error of the flush. */
int gpufs_host_fileno(gpufs_host *host, gpufs_file *file);
/* Flushes and closes a stream that host or kernel opened. 0, or -1: EBADF, EBUSY as above, or the error of the
 * flush. */
int gpufs_host_fclose(gpufs_host *host, gpufs_file *file);

/* Gives kernels a file that the program has open and keeps: a descriptor for gpufs_pread and the other calls of
 * <gpufs/file.h>, or -1: EBADF, EMFILE. */
int gpufs_host_register_file(gpufs_host *host, int descriptor);
/* Takes it back. No kernel may be using it. 0, or -1: EBADF. */
int gpufs_host_unregister_file(gpufs_host *host, int descriptor);
/* Maps a file that the program has open, for kernels to look at as an array (<gpufs/view.h>): a regular file or a block
 * device, open for reading, and with GPUFS_MAP_WRITE for writing too, not to append. The session has a cache
 * (cache_bytes of gpufs_options). While no kernel runs. 0, or -1: EINVAL, ENODEV for another
 * kind of file, EACCES, EMFILE (256 mappings, or the file table is full), EBADF, EBUSY (kernels are running, or there is no
 * cache: gpufs_last_error() says which). */
#define GPUFS_MAP_READ 0
#define GPUFS_MAP_WRITE 1
int gpufs_host_map(gpufs_host *host, int descriptor, int access, gpufs_mapping *into);
/* Writes what was stored to a mapping, forgets its pages, and takes the file back. While no kernel runs. 0, or -1: EBADF,
 * EBUSY, and what a write met: then it is still mapped. */
int gpufs_host_unmap(gpufs_host *host, gpufs_mapping mapping);
/* Makes a buffer of at least `bytes` bytes, in whole pages, that kernels and the system use in place, without a copy,
 * at one address. It is freed with the session. Null on error: ENOMEM, EBUSY (kernels are running, or the table is
 * full). */
void *gpufs_host_buffer(gpufs_host *host, size_t bytes);

/* A function that kernels call (gpufs_call): fills `reply`, which is zero before, from `request`. 0, or an error number,
 * which the call fails with. It runs on threads of the session, several at a time; it may block, and must not wait for
 * the kernel that called it. */
typedef int (*gpufs_service)(void *context, const void *request, void *reply);
/* Lets kernels call `function` by `name`, with requests and replies of these many bytes, GPUFS_SERVICE_BYTES at most,
 * until the host is closed. 0, or -1: EINVAL (null, too many bytes), EEXIST (the name is taken). */
int gpufs_host_add_service(gpufs_host *host, const char *name, size_t request_bytes, size_t reply_bytes,
                           gpufs_service function, void *context);

/* Counters of the session since it began, summed over its rings. Exact while no kernel runs. */
typedef struct gpufs_statistics {
    size_t size;            /* sizeof(gpufs_statistics), set by the caller */
    uint32_t rings;         /* their number */
    uint32_t mode;          /* GPUFS_MODE_...: what serves them */
    uint64_t operations;    /* submitted */
    uint64_t publications;  /* stores of a submission queue's tail */
    uint64_t completions;   /* drained */
    uint64_t empty_looks;   /* polls of a completion queue that found it empty */
    uint64_t stale;         /* completions that no operation waited for: 0 */
    uint64_t slot_waits;    /* times that a warp found no free slot */
    uint64_t bytes_read;
    uint64_t bytes_written;
    uint64_t wake_ups;      /* of sleeping SQPOLL threads */
    uint64_t failed_calls;  /* of kernels and of the host; UINT64_MAX after a GPU's fault, which destroys the count */
    uint64_t cache_hits;    /* threads that looked for a page of a mapped file, and found it */
    uint64_t cache_misses;  /* pages that were read */
    uint64_t cache_evictions;   /* pages that went to make room */
    uint64_t cache_write_backs; /* pages that kernels wrote */
    uint64_t cache_waits;   /* times that a thread found a page on its way, or no room */
} gpufs_statistics;

GPUFS_SIZE_(gpufs_statistics, 136);
GPUFS_OFFSET_(gpufs_statistics, size, 0);
GPUFS_OFFSET_(gpufs_statistics, rings, 8);
GPUFS_OFFSET_(gpufs_statistics, mode, 12);
GPUFS_OFFSET_(gpufs_statistics, operations, 16);
GPUFS_OFFSET_(gpufs_statistics, publications, 24);
GPUFS_OFFSET_(gpufs_statistics, completions, 32);
GPUFS_OFFSET_(gpufs_statistics, empty_looks, 40);
GPUFS_OFFSET_(gpufs_statistics, stale, 48);
GPUFS_OFFSET_(gpufs_statistics, slot_waits, 56);
GPUFS_OFFSET_(gpufs_statistics, bytes_read, 64);
GPUFS_OFFSET_(gpufs_statistics, bytes_written, 72);
GPUFS_OFFSET_(gpufs_statistics, wake_ups, 80);
GPUFS_OFFSET_(gpufs_statistics, failed_calls, 88);
GPUFS_OFFSET_(gpufs_statistics, cache_hits, 96);
GPUFS_OFFSET_(gpufs_statistics, cache_misses, 104);
GPUFS_OFFSET_(gpufs_statistics, cache_evictions, 112);
GPUFS_OFFSET_(gpufs_statistics, cache_write_backs, 120);
GPUFS_OFFSET_(gpufs_statistics, cache_waits, 128);

/* Fills `into`, up to its `size`. 0, or -1: EINVAL. */
int gpufs_host_statistics(const gpufs_host *host, gpufs_statistics *into);

/* One kind of failure: a call and an error. */
typedef struct gpufs_failure {
    const char *call;  /* "fopen", a constant */
    int error;         /* ENOMEM ...; 0 for a number that Linux does not have */
    uint32_t reserved;
    uint64_t count;    /* since the session began */
} gpufs_failure;

GPUFS_SIZE_(gpufs_failure, 24);
GPUFS_OFFSET_(gpufs_failure, call, 0);
GPUFS_OFFSET_(gpufs_failure, error, 8);
GPUFS_OFFSET_(gpufs_failure, reserved, 12);
GPUFS_OFFSET_(gpufs_failure, count, 16);

/* Stores the first `room` kinds of failure in `into`. Returns how many kinds there are, or -1: EINVAL; ENODATA after
 * a GPU's fault. The end of a file is not a failure. A program that calls neither this nor gpufs_host_statistics gets
 * a line for each kind on the standard error when it closes the session or ends, unless gpufs_options.quiet forbids it.
 * A call on null, or on a pointer that is not a stream, belongs to no session and is not counted. */
int gpufs_host_failures(const gpufs_host *host, gpufs_failure *into, size_t room);

/* Describes in words the device, what serves the rings, and why the better modes are refused; cut to `bytes` with the
 * NUL. The length of the whole text, as snprintf(3), or -1: EINVAL. */
int gpufs_host_describe(const gpufs_host *host, char *into, size_t bytes);

/* One line of text, for people, about this thread's last call of this header that failed. It stays until the next
 * call that fails. Never null. */
const char *gpufs_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
