/* Bulk transfers between files and memory, without a kernel, for C (C99) and C++ programs: link libgpufs.
 *
 *     gpufs_host_read_into(NULL, weights, bytes, descriptor, offset);
 *
 * Threads of the process read and write; memory of a GPU is reached through pinned chunks and the GPU's copy engine. Any number
 * of parts, of any number of files, go in one transfer, in the background. NVIDIA GPUs; on other machines memory of the host.
 *
 * Hosts. `host` counts the transfer (gpufs_transfer_statistics). It may be null: the transfer then belongs to no session. No
 * function here uses the session's rings, and kernels may run meanwhile.
 *
 * Memory. Until a transfer has ended, its memory must be there, nothing else may use memory that is read into, and nothing may
 * change memory that is written from. Files are duplicated: the program may close its descriptors.
 *
 * Results and threads are as in <gpufs/host.h>: -1 or null with errno and gpufs_last_error().
 */
#ifndef GPUFS_TRANSFER_H
#define GPUFS_TRANSFER_H

#include <gpufs/host.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What kind of memory it is. */
#define GPUFS_MEMORY_FIND_OUT 0 /* the driver is asked */
#define GPUFS_MEMORY_PAGEABLE 1 /* ordinary memory of the host */
#define GPUFS_MEMORY_PINNED 2   /* memory of the host that the driver has pinned */
#define GPUFS_MEMORY_DEVICE 3   /* of a GPU */
#define GPUFS_MEMORY_MANAGED 4  /* that the driver moves between host and GPU */

/* How bytes got between file and memory. */
#define GPUFS_WAY_IN_PLACE 0     /* the system read or wrote the memory itself */
#define GPUFS_WAY_STAGED 1       /* through pinned chunks and the copy engine */
#define GPUFS_WAY_THROUGH_HOST 2 /* through ordinary memory of the host, as none could be pinned */

/* A stretch of memory, and where its bytes are in a file. */
typedef struct gpufs_part {
    int32_t descriptor;          /* of the file; to be written it is not open for appending: EINVAL */
    uint32_t memory_kind;        /* GPUFS_MEMORY_...; a kind that is named must be right */
    void *memory;                /* its address, on its device; not changed by a write */
    uint64_t bytes;              /* its length */
    uint64_t offset;             /* of the first byte in the file */
    uint64_t row_bytes;          /* not 0: rows of so many bytes, scattered in the file, one after the other in memory */
    const uint64_t *row_offsets; /* where each begins, `offset` added: bytes / row_bytes numbers, read when it starts */
} gpufs_part;

GPUFS_SIZE_(gpufs_part, 48);
GPUFS_OFFSET_(gpufs_part, descriptor, 0);
GPUFS_OFFSET_(gpufs_part, memory_kind, 4);
GPUFS_OFFSET_(gpufs_part, memory, 8);
GPUFS_OFFSET_(gpufs_part, bytes, 16);
GPUFS_OFFSET_(gpufs_part, offset, 24);
GPUFS_OFFSET_(gpufs_part, row_bytes, 32);
GPUFS_OFFSET_(gpufs_part, row_offsets, 40);

/* Choices. Set everything to 0, set `size`, then the fields that matter. */
typedef struct gpufs_transfer_options {
    size_t size;        /* sizeof(gpufs_transfer_options) */
    void *stream;       /* a cudaStream_t or CUstream of the GPU whose memory is transferred; null is the default stream */
    uint32_t on_stream; /* 1: the memory is touched when what was queued in `stream` before has ended */
    uint32_t reserved;  /* 0 */
} gpufs_transfer_options;

GPUFS_SIZE_(gpufs_transfer_options, 24);
GPUFS_OFFSET_(gpufs_transfer_options, size, 0);
GPUFS_OFFSET_(gpufs_transfer_options, stream, 8);
GPUFS_OFFSET_(gpufs_transfer_options, on_stream, 16);
GPUFS_OFFSET_(gpufs_transfer_options, reserved, 20);

/* A transfer that goes on by itself. */
typedef struct gpufs_transfer gpufs_transfer;

/* Reads into memory, from `offset` of a file on, and waits: the bytes, fewer than asked for where the file ends; or -1. */
int64_t gpufs_host_read_into(gpufs_host *host, void *memory, size_t bytes, int descriptor, uint64_t offset);
/* Writes memory to a file, from `offset` on, all of it, and waits: the bytes, or -1. A file may be as long as the whole from the
 * beginning, also where the write fails. */
int64_t gpufs_host_write_from(gpufs_host *host, const void *memory, size_t bytes, int descriptor, uint64_t offset);

/* Start a transfer of `count` parts, which are read when it starts. `options` may be null. Null on error: EINVAL (memory that is
 * not of the named kind, or shorter; rows that do not fill it), EBADF, EMFILE, ENOMEM; gpufs_last_error() names the part. Each
 * must be waited for, once. */
gpufs_transfer *gpufs_host_start_read(gpufs_host *host, const gpufs_part *parts, size_t count,
                                      const gpufs_transfer_options *options);
gpufs_transfer *gpufs_host_start_write(gpufs_host *host, const gpufs_part *parts, size_t count,
                                       const gpufs_transfer_options *options);

/* Waits for so long at most (0: not at all). 1 if the transfer has ended, well or not, 0 if it goes on; -1: EINVAL (null).
 * `done` and `total`, if they are not null, get the bytes that were moved so far, and those of the whole. */
int gpufs_transfer_poll(const gpufs_transfer *transfer, uint64_t timeout_ms, uint64_t *done, uint64_t *total);
/* Waits for the end, and frees the transfer: its last use. The bytes of all parts, and in `each`, if it is not null, of every part,
 * fewer than a part has where a file that was read ended. Or -1 with the error of the first part that failed, whose number is in
 * `failed`, if that is not null: EIO, ENOSPC ...; ENODATA (a row that is not all in the file). */
int64_t gpufs_transfer_wait(gpufs_transfer *transfer, uint64_t *each, size_t *failed);

/* The kind of memory at an address, GPUFS_MEMORY_...; or -1: EIO (the driver refuses). Where there is no driver, pageable. */
int gpufs_memory_kind(const void *memory);

/* Sizes of what all transfers of the process share, 0 for the default: threads (1 to 256; default the cores, at most 16), bytes of
 * a chunk at most (a multiple of 4096 up to 64 MiB; default 4 MiB, of which reads take 2 MiB at most where the driver takes several
 * copies at once, since CUDA 12.8, and writes and scattered rows 1 MiB), chunks of a thread (1 to 16; default 3, of
 * which pieces of more than 2 MiB take two). Pinned chunks are made when first used, and stay. 0, or -1: EINVAL,
 * EBUSY (a transfer has been started). */
int gpufs_transfer_configure(uint32_t threads, uint64_t chunk_bytes, uint32_t chunks);

/* What went one way to or from memory of one kind. */
typedef struct gpufs_transfer_count {
    uint64_t reads;  /* pieces that were read, each by one system call or more */
    uint64_t writes; /* pieces that were written */
    uint64_t bytes_read;
    uint64_t bytes_written;
} gpufs_transfer_count;

GPUFS_SIZE_(gpufs_transfer_count, 32);
GPUFS_OFFSET_(gpufs_transfer_count, reads, 0);
GPUFS_OFFSET_(gpufs_transfer_count, writes, 8);
GPUFS_OFFSET_(gpufs_transfer_count, bytes_read, 16);
GPUFS_OFFSET_(gpufs_transfer_count, bytes_written, 24);

/* What the host's transfers have done; for a null host, those of the whole process. `into` has room for 12: that of a kind and a way
 * is into[3 * (kind - 1) + way]. 0, or -1: EINVAL. */
int gpufs_transfer_statistics(const gpufs_host *host, gpufs_transfer_count into[12]);

#ifdef __cplusplus
}
#endif

#endif
