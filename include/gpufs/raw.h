/* The functions that the device library exports, and how the headers turn their results into C's. Programs have no
 * need of this file: they call the functions of <gpufs/stdio.h> and <gpufs/file.h>, each of which has its contract.
 *
 * A result is a value, or a negated error number from -4095 to -1, unless a comment says otherwise. Only numbers and
 * pointers cross: compilers for GPUs differ in how they pass structures.
 */
#ifndef GPUFS_RAW_H
#define GPUFS_RAW_H

#include <gpufs/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* <gpufs/stdio.h>: streams. */

/* 0, 1 or 2: a handle, or 0 for a null session. */
GPUFS_BOTH uint64_t gpufs_raw_standard_stream(gpufs_session *session, int number);
GPUFS_BOTH int64_t gpufs_raw_fopen(gpufs_session *session, const char *path, const char *mode);
GPUFS_BOTH int64_t gpufs_raw_fopen_shared(gpufs_session *session, const char *path, const char *mode);
GPUFS_BOTH int64_t gpufs_raw_fclose(gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_fflush(gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_fflush_all(gpufs_session *session);
/* fread and fwrite: whole items in the low 48 bits, the error number above them, 0 if there is none. */
GPUFS_BOTH uint64_t gpufs_raw_fread(void *into, size_t item_bytes, size_t items, gpufs_file *file);
GPUFS_BOTH uint64_t gpufs_raw_fwrite(const void *from, size_t item_bytes, size_t items, gpufs_file *file);
/* 1, or 0 for no line. */
GPUFS_BOTH int64_t gpufs_raw_fgets(char *into, int bytes, gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_fputs(const char *string, gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_puts(gpufs_session *session, const char *string);
/* fgetc, fputc and ungetc: a byte, or 256 where C has EOF without an error. */
GPUFS_BOTH int64_t gpufs_raw_fgetc(gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_fputc(int byte, gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_ungetc(int byte, gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_fseek(gpufs_file *file, int64_t offset, int whence);
GPUFS_BOTH int64_t gpufs_raw_ftell(gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_rewind(gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_setvbuf(gpufs_file *file, int mode, size_t bytes);
GPUFS_BOTH int64_t gpufs_raw_feof(gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_ferror(gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_clearerr(gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_fprintf(gpufs_file *file, const char *format, size_t format_bytes,
                                     const gpufs_argument *arguments, size_t count);
GPUFS_BOTH int64_t gpufs_raw_snprintf(char *into, size_t bytes, const char *format, size_t format_bytes,
                                      const gpufs_argument *arguments, size_t count);

/* <gpufs/trace.h>. */

struct gpufs_trace;
struct gpufs_trace_event;
struct gpufs_trace_span;
struct gpufs_trace_counter;
struct gpufs_trace_recorder;
struct gpufs_trace_value;

GPUFS_BOTH int64_t gpufs_raw_trace_open(gpufs_session *session, const char *path, struct gpufs_trace *into);
GPUFS_BOTH int64_t gpufs_raw_trace_event(const struct gpufs_trace *trace, const char *name,
                                         const char *const *value_names, int count, struct gpufs_trace_event *into);
GPUFS_BOTH int64_t gpufs_raw_trace_counter(const struct gpufs_trace *trace, const char *name,
                                           struct gpufs_trace_counter *into);
GPUFS_BOTH int64_t gpufs_raw_trace_begin(const struct gpufs_trace_event *event, const struct gpufs_trace_value *values,
                                         struct gpufs_trace_span *into);
GPUFS_BOTH int64_t gpufs_raw_trace_end(struct gpufs_trace_span *span);
GPUFS_BOTH int64_t gpufs_raw_trace_instant(const struct gpufs_trace_event *event,
                                           const struct gpufs_trace_value *values);
GPUFS_BOTH int64_t gpufs_raw_trace_set(const struct gpufs_trace_counter *counter,
                                       const struct gpufs_trace_value *value);
GPUFS_BOTH int64_t gpufs_raw_trace_recorder(const struct gpufs_trace *trace, struct gpufs_trace_recorder *into);
GPUFS_BOTH int64_t gpufs_raw_trace_record(struct gpufs_trace_recorder *recorder, uint32_t kind,
                                          const struct gpufs_trace_event *event,
                                          const struct gpufs_trace_value *values);
GPUFS_BOTH int64_t gpufs_raw_trace_record_counter(struct gpufs_trace_recorder *recorder,
                                                  const struct gpufs_trace_counter *counter,
                                                  const struct gpufs_trace_value *value);
GPUFS_BOTH int64_t gpufs_raw_trace_recorder_finish(struct gpufs_trace_recorder *recorder);
GPUFS_BOTH int64_t gpufs_raw_trace_join_clocks(const struct gpufs_trace *trace);
GPUFS_BOTH int64_t gpufs_raw_trace_flush(const struct gpufs_trace *trace);
GPUFS_BOTH int64_t gpufs_raw_trace_close(const struct gpufs_trace *trace);

/* <gpufs/print.h>: the types of a format's arguments (GPUFS_PASSED_...), and what an error number says. */

GPUFS_BOTH int64_t gpufs_raw_argument_types(const char *format, size_t format_bytes, void *types, size_t room);
GPUFS_BOTH const char *gpufs_raw_strerror(int number);

/* <gpufs/service.h>: what the host does. */

struct gpufs_timespec;
struct gpufs_record_lock;
struct gpufs_dirent;

GPUFS_BOTH int64_t gpufs_raw_readlink(gpufs_session *session, const char *path, void *into, size_t bytes);
GPUFS_BOTH int64_t gpufs_raw_truncate(gpufs_session *session, const char *path, int64_t length);
GPUFS_BOTH int64_t gpufs_raw_readlinkat(gpufs_session *session, int dir, const char *path, void *into, size_t bytes);
GPUFS_BOTH int64_t gpufs_raw_fchmodat(gpufs_session *session, int dir, const char *path, uint32_t mode, int flags);
GPUFS_BOTH int64_t gpufs_raw_getfl(gpufs_session *session, int descriptor);
GPUFS_BOTH int64_t gpufs_raw_chmod(gpufs_session *session, const char *path, uint32_t mode);
GPUFS_BOTH int64_t gpufs_raw_fchmod(gpufs_session *session, int descriptor, uint32_t mode);
GPUFS_BOTH int64_t gpufs_raw_access(gpufs_session *session, const char *path, int mode);
GPUFS_BOTH int64_t gpufs_raw_faccessat(gpufs_session *session, int dir, const char *path, int mode, int flags);
GPUFS_BOTH int64_t gpufs_raw_utimensat(gpufs_session *session, int dir, const char *path,
                                       const struct gpufs_timespec *times, int flags);
GPUFS_BOTH int64_t gpufs_raw_futimens(gpufs_session *session, int descriptor, const struct gpufs_timespec *times);
GPUFS_BOTH int64_t gpufs_raw_chdir(gpufs_session *session, const char *path);
GPUFS_BOTH int64_t gpufs_raw_fchdir(gpufs_session *session, int dir);
GPUFS_BOTH int64_t gpufs_raw_umask(gpufs_session *session, uint32_t mask);
GPUFS_BOTH int64_t gpufs_raw_getcwd(gpufs_session *session, void *into, size_t bytes);
GPUFS_BOTH int64_t gpufs_raw_flock(gpufs_session *session, int descriptor, int operation);
GPUFS_BOTH int64_t gpufs_raw_fcntl(gpufs_session *session, int descriptor, int command, struct gpufs_record_lock *lock);
GPUFS_BOTH int64_t gpufs_raw_getenv(gpufs_session *session, const char *name, void *into, size_t bytes);
GPUFS_BOTH int64_t gpufs_raw_clock_gettime(gpufs_session *session, int clock, struct gpufs_timespec *into);
GPUFS_BOTH int64_t gpufs_raw_nanosleep(gpufs_session *session, const struct gpufs_timespec *duration);
GPUFS_BOTH int64_t gpufs_raw_call(gpufs_session *session, const char *name, const void *request,
                                  size_t request_bytes, void *reply, size_t reply_bytes);
GPUFS_BOTH int64_t gpufs_raw_time(gpufs_session *session);
GPUFS_BOTH int64_t gpufs_raw_popen(gpufs_session *session, const char *command, const char *mode);
GPUFS_BOTH int64_t gpufs_raw_pclose(gpufs_file *file);

/* <gpufs/aio.h>: asynchronous operations. */

struct gpufs_aiocb;
struct gpufs_sigevent;

GPUFS_BOTH int64_t gpufs_raw_aio_read(gpufs_session *session, struct gpufs_aiocb *block);
GPUFS_BOTH int64_t gpufs_raw_aio_write(gpufs_session *session, struct gpufs_aiocb *block);
GPUFS_BOTH int64_t gpufs_raw_aio_fsync(gpufs_session *session, int operation, struct gpufs_aiocb *block);
GPUFS_BOTH int64_t gpufs_raw_aio_error(gpufs_session *session, const struct gpufs_aiocb *block);
GPUFS_BOTH int64_t gpufs_raw_aio_return(gpufs_session *session, struct gpufs_aiocb *block);
GPUFS_BOTH int64_t gpufs_raw_aio_suspend(gpufs_session *session, const struct gpufs_aiocb *const *blocks, int count,
                                         const struct gpufs_timespec *timeout);
GPUFS_BOTH int64_t gpufs_raw_aio_cancel(gpufs_session *session, int descriptor, struct gpufs_aiocb *block);
GPUFS_BOTH int64_t gpufs_raw_aio_recv(gpufs_session *session, struct gpufs_aiocb *block, int flags);
GPUFS_BOTH int64_t gpufs_raw_aio_send(gpufs_session *session, struct gpufs_aiocb *block, int flags);
GPUFS_BOTH int64_t gpufs_raw_aio_poll(gpufs_session *session, struct gpufs_aiocb *block, int events);
GPUFS_BOTH int64_t gpufs_raw_aio_chain(gpufs_session *session, int mode, struct gpufs_aiocb *const *blocks, int count);
GPUFS_BOTH int64_t gpufs_raw_lio_listio(gpufs_session *session, int mode, struct gpufs_aiocb *const *blocks, int count,
                                        const struct gpufs_sigevent *event);

/* <gpufs/view.h>: files as arrays. A mapping is its number. */

GPUFS_BOTH int64_t gpufs_raw_view_get(gpufs_session *session, uint64_t mapping, uint64_t offset, void *into,
                                      size_t bytes);
GPUFS_BOTH int64_t gpufs_raw_view_set(gpufs_session *session, uint64_t mapping, uint64_t offset, const void *from,
                                      size_t bytes);
GPUFS_BOTH int64_t gpufs_raw_view_add(gpufs_session *session, uint64_t mapping, uint64_t offset, uint64_t value,
                                      void *before, size_t bytes);
/* An address. */
GPUFS_BOTH int64_t gpufs_raw_view_pin(gpufs_session *session, uint64_t mapping, uint64_t offset, size_t bytes);
/* An address, or 0. */
GPUFS_BOTH int64_t gpufs_raw_view_whole(gpufs_session *session, uint64_t mapping, uint64_t offset, uint64_t *bytes);
GPUFS_BOTH int64_t gpufs_raw_view_unpin(gpufs_session *session, const void *at);
GPUFS_BOTH int64_t gpufs_raw_view_flush(gpufs_session *session, uint64_t mapping, int sync);
GPUFS_BOTH int64_t gpufs_raw_view_prefetch(gpufs_session *session, uint64_t mapping, uint64_t offset, uint64_t bytes);

/* <gpufs/socket.h>: sockets. */

struct sockaddr;
struct gpufs_pollfd;
struct gpufs_msghdr;

GPUFS_BOTH int64_t gpufs_raw_socket(gpufs_session *session, int family, int kind, int protocol);
GPUFS_BOTH int64_t gpufs_raw_socketpair(gpufs_session *session, int family, int kind, int protocol, int *into);
GPUFS_BOTH int64_t gpufs_raw_bind(gpufs_session *session, int socket, const struct sockaddr *address, uint32_t bytes);
GPUFS_BOTH int64_t gpufs_raw_listen(gpufs_session *session, int socket, int backlog);
GPUFS_BOTH int64_t gpufs_raw_accept(gpufs_session *session, int socket, struct sockaddr *address, uint32_t *bytes);
GPUFS_BOTH int64_t gpufs_raw_accept4(gpufs_session *session, int socket, struct sockaddr *address, uint32_t *bytes,
                                     int flags);
GPUFS_BOTH int64_t gpufs_raw_connect(gpufs_session *session, int socket, const struct sockaddr *address,
                                     uint32_t bytes);
GPUFS_BOTH int64_t gpufs_raw_shutdown(gpufs_session *session, int socket, int how);
GPUFS_BOTH int64_t gpufs_raw_send(gpufs_session *session, int socket, const void *from, size_t bytes, int flags);
GPUFS_BOTH int64_t gpufs_raw_sendto(gpufs_session *session, int socket, const void *from, size_t bytes, int flags,
                                    const struct sockaddr *address, uint32_t address_bytes);
GPUFS_BOTH int64_t gpufs_raw_recv(gpufs_session *session, int socket, void *into, size_t bytes, int flags);
GPUFS_BOTH int64_t gpufs_raw_recvfrom(gpufs_session *session, int socket, void *into, size_t bytes, int flags,
                                      struct sockaddr *address, uint32_t *address_bytes);
GPUFS_BOTH int64_t gpufs_raw_sendmsg(gpufs_session *session, int socket, const struct gpufs_msghdr *message, int flags);
GPUFS_BOTH int64_t gpufs_raw_recvmsg(gpufs_session *session, int socket, struct gpufs_msghdr *message, int flags);
GPUFS_BOTH int64_t gpufs_raw_setsockopt(gpufs_session *session, int socket, int level, int option,
                                        const void *value, uint32_t bytes);
GPUFS_BOTH int64_t gpufs_raw_getsockopt(gpufs_session *session, int socket, int level, int option, void *value,
                                        uint32_t *bytes);
GPUFS_BOTH int64_t gpufs_raw_getsockname(gpufs_session *session, int socket, struct sockaddr *address,
                                         uint32_t *bytes);
GPUFS_BOTH int64_t gpufs_raw_getpeername(gpufs_session *session, int socket, struct sockaddr *address,
                                         uint32_t *bytes);
GPUFS_BOTH int64_t gpufs_raw_poll(gpufs_session *session, struct gpufs_pollfd *all, uint64_t entries, int timeout);

/* <gpufs/pipe.h>: pipes and counters. */

GPUFS_BOTH int64_t gpufs_raw_pipe(gpufs_session *session, int *into);
GPUFS_BOTH int64_t gpufs_raw_pipe2(gpufs_session *session, int *into, int flags);
GPUFS_BOTH int64_t gpufs_raw_eventfd(gpufs_session *session, unsigned initial, int flags);
GPUFS_BOTH int64_t gpufs_raw_splice(gpufs_session *session, int from, int64_t *from_offset, int to, int64_t *to_offset,
                                    size_t bytes, unsigned flags);
GPUFS_BOTH int64_t gpufs_raw_tee(gpufs_session *session, int from, int to, size_t bytes, unsigned flags);

/* <gpufs/dirent.h>: directories. */

GPUFS_BOTH int64_t gpufs_raw_opendir(gpufs_session *session, const char *path);
GPUFS_BOTH int64_t gpufs_raw_readdir(gpufs_session *session, int dir, struct gpufs_dirent *into);
GPUFS_BOTH int64_t gpufs_raw_rewinddir(gpufs_session *session, int dir);
GPUFS_BOTH int64_t gpufs_raw_telldir(gpufs_session *session, int dir);
GPUFS_BOTH int64_t gpufs_raw_seekdir(gpufs_session *session, int dir, int64_t position);
GPUFS_BOTH int64_t gpufs_raw_closedir(gpufs_session *session, int dir);

GPUFS_BOTH int64_t gpufs_raw_flockfile(gpufs_file *file);
/* 1: another has it. */
GPUFS_BOTH int64_t gpufs_raw_ftrylockfile(gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_funlockfile(gpufs_file *file);
/* A step: the length so far in the low 48 bits, above them 0 (whole), 1 (more room), 2 (again), 3 (end of file). With
 * null memory: gives up. */
GPUFS_BOTH int64_t gpufs_raw_getdelim(char *into, size_t bytes, size_t done, int delimiter, gpufs_file *file);
/* Streams and descriptors. */
GPUFS_BOTH int64_t gpufs_raw_dup(gpufs_session *session, int descriptor);
GPUFS_BOTH int64_t gpufs_raw_dup2(gpufs_session *session, int descriptor, int other);
GPUFS_BOTH int64_t gpufs_raw_dup3(gpufs_session *session, int descriptor, int other, int flags);
GPUFS_BOTH int64_t gpufs_raw_fdopen(gpufs_session *session, int descriptor, const char *mode);
GPUFS_BOTH int64_t gpufs_raw_fileno(gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_freopen(const char *path, const char *mode, gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_tmpfile(gpufs_session *session);
/* Streams on memory. `word`: an address, which gpufs_raw_fflush returns, and gpufs_raw_fclose the first time, when the
 * stream stays open. */
GPUFS_BOTH int64_t gpufs_raw_fmemopen(gpufs_session *session, void *memory, size_t bytes, const char *mode);
GPUFS_BOTH int64_t gpufs_raw_open_memstream(gpufs_session *session, const void *word);
/* The position; `*length` bytes and a NUL to `into` where they fit. */
GPUFS_BOTH int64_t gpufs_raw_memory_text(char *into, size_t bytes, size_t *length, gpufs_file *file);
GPUFS_BOTH int64_t gpufs_raw_mkstemp(gpufs_session *session, char *path);

/* <gpufs/scan.h>: the scanf family. Targets that got a value, or 2^40 for EOF without an error. `reallocate` may be null;
 * else it is called with memory, its bytes before, and its bytes after, 0 to free it. */
GPUFS_BOTH int64_t gpufs_raw_fscanf(gpufs_file *file, const char *format, size_t format_bytes,
                                    const gpufs_scan_target *targets, size_t count,
                                    void *(*reallocate)(void *, size_t, size_t));
GPUFS_BOTH int64_t gpufs_raw_sscanf(const char *text, const char *format, size_t format_bytes,
                                    const gpufs_scan_target *targets, size_t count,
                                    void *(*reallocate)(void *, size_t, size_t));
/* How many targets a format takes. */
GPUFS_BOTH int64_t gpufs_raw_scan_targets(const char *format, size_t format_bytes);

/* <gpufs/file.h>: descriptors. */

GPUFS_BOTH int64_t gpufs_raw_open(gpufs_session *session, const char *path, int flags, uint32_t mode);
GPUFS_BOTH int64_t gpufs_raw_close(gpufs_session *session, int descriptor);
GPUFS_BOTH int64_t gpufs_raw_read(gpufs_session *session, int descriptor, void *into, size_t bytes);
GPUFS_BOTH int64_t gpufs_raw_write(gpufs_session *session, int descriptor, const void *from, size_t bytes);
GPUFS_BOTH int64_t gpufs_raw_pread(gpufs_session *session, int descriptor, void *into, size_t bytes, int64_t offset);
GPUFS_BOTH int64_t gpufs_raw_pwrite(gpufs_session *session, int descriptor, const void *from, size_t bytes,
                                    int64_t offset);
GPUFS_BOTH int64_t gpufs_raw_readv(gpufs_session *session, int descriptor, const gpufs_iovec *into, int count);
GPUFS_BOTH int64_t gpufs_raw_writev(gpufs_session *session, int descriptor, const gpufs_iovec *from, int count);
GPUFS_BOTH int64_t gpufs_raw_preadv(gpufs_session *session, int descriptor, const gpufs_iovec *into, int count,
                                    int64_t offset);
GPUFS_BOTH int64_t gpufs_raw_pwritev(gpufs_session *session, int descriptor, const gpufs_iovec *from, int count,
                                     int64_t offset);
GPUFS_BOTH int64_t gpufs_raw_preadv2(gpufs_session *session, int descriptor, const gpufs_iovec *into, int count,
                                     int64_t offset, int flags);
GPUFS_BOTH int64_t gpufs_raw_pwritev2(gpufs_session *session, int descriptor, const gpufs_iovec *from, int count,
                                      int64_t offset, int flags);
GPUFS_BOTH int64_t gpufs_raw_lseek(gpufs_session *session, int descriptor, int64_t offset, int whence);
GPUFS_BOTH int64_t gpufs_raw_fsync(gpufs_session *session, int descriptor);
GPUFS_BOTH int64_t gpufs_raw_fdatasync(gpufs_session *session, int descriptor);
GPUFS_BOTH int64_t gpufs_raw_ftruncate(gpufs_session *session, int descriptor, int64_t length);

/* <gpufs/stat.h>: metadata and paths. `dir` is an open directory or GPUFS_AT_FDCWD. */

struct gpufs_stat;
struct gpufs_statx;
GPUFS_BOTH int64_t gpufs_raw_openat(gpufs_session *session, int dir, const char *path, int flags, uint32_t mode);
GPUFS_BOTH int64_t gpufs_raw_creat(gpufs_session *session, const char *path, uint32_t mode);
GPUFS_BOTH int64_t gpufs_raw_fallocate(gpufs_session *session, int descriptor, int mode, int64_t offset, int64_t length);
GPUFS_BOTH int64_t gpufs_raw_posix_fadvise(gpufs_session *session, int descriptor, int64_t offset, int64_t length,
                                           int advice);
GPUFS_BOTH int64_t gpufs_raw_sync_file_range(gpufs_session *session, int descriptor, int64_t offset, int64_t length,
                                             unsigned flags);
GPUFS_BOTH int64_t gpufs_raw_stat(gpufs_session *session, const char *path, struct gpufs_stat *into);
GPUFS_BOTH int64_t gpufs_raw_lstat(gpufs_session *session, const char *path, struct gpufs_stat *into);
GPUFS_BOTH int64_t gpufs_raw_fstat(gpufs_session *session, int descriptor, struct gpufs_stat *into);
GPUFS_BOTH int64_t gpufs_raw_fstatat(gpufs_session *session, int dir, const char *path, int flags,
                                     struct gpufs_stat *into);
GPUFS_BOTH int64_t gpufs_raw_statx(gpufs_session *session, int dir, const char *path, int flags, unsigned mask,
                                   struct gpufs_statx *into);
GPUFS_BOTH int64_t gpufs_raw_unlink(gpufs_session *session, const char *path);
GPUFS_BOTH int64_t gpufs_raw_unlinkat(gpufs_session *session, int dir, const char *path, int flags);
GPUFS_BOTH int64_t gpufs_raw_rmdir(gpufs_session *session, const char *path);
GPUFS_BOTH int64_t gpufs_raw_remove(gpufs_session *session, const char *path);
GPUFS_BOTH int64_t gpufs_raw_rename(gpufs_session *session, const char *old_path, const char *new_path);
GPUFS_BOTH int64_t gpufs_raw_renameat(gpufs_session *session, int old_dir, const char *old_path, int new_dir,
                                      const char *new_path);
GPUFS_BOTH int64_t gpufs_raw_renameat2(gpufs_session *session, int old_dir, const char *old_path, int new_dir,
                                       const char *new_path, unsigned flags);
GPUFS_BOTH int64_t gpufs_raw_mkdir(gpufs_session *session, const char *path, uint32_t mode);
GPUFS_BOTH int64_t gpufs_raw_mkdirat(gpufs_session *session, int dir, const char *path, uint32_t mode);
GPUFS_BOTH int64_t gpufs_raw_link(gpufs_session *session, const char *old_path, const char *new_path);
GPUFS_BOTH int64_t gpufs_raw_linkat(gpufs_session *session, int old_dir, const char *old_path, int new_dir,
                                    const char *new_path, int flags);
GPUFS_BOTH int64_t gpufs_raw_symlink(gpufs_session *session, const char *target, const char *path);
GPUFS_BOTH int64_t gpufs_raw_symlinkat(gpufs_session *session, const char *target, int dir, const char *path);

/* <gpufs/gpufs.h>: the thread. These give their value alone. */

GPUFS_BOTH uint64_t gpufs_raw_thread(void);
GPUFS_BOTH uint64_t gpufs_raw_threads(void);
GPUFS_BOTH uint32_t gpufs_raw_block(void);
GPUFS_BOTH uint32_t gpufs_raw_thread_in_block(void);
GPUFS_BOTH void gpufs_raw_nap(uint32_t nanoseconds);

/* <gpufs/use.h>, <gpufs/drop_in.h>: the session in use, and the calling thread's errno. These give their value alone. */

GPUFS_BOTH void gpufs_raw_use_session(gpufs_session *session);
GPUFS_BOTH gpufs_session *gpufs_raw_used_session(void);
GPUFS_BOTH int *gpufs_raw_errno(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

/* Ends a function that returns GPUFS_RESULT(type). */
#ifdef __cplusplus
#define GPUFS_RETURN(type, value, error) return ::gpufs::Result<type>((value), gpufs_note_error_(error))
#else
#define GPUFS_RETURN(type, value, error) \
    do {                                 \
        (void)gpufs_note_error_(error);  \
        return (type)(value);            \
    } while (0)
#endif

/* Stores an error number in errno: the C library's on the host; in C on a GPU the calling thread's place in device
 * memory. In C++ on a GPU only <gpufs/drop_in.h> does: the result has the number. */
GPUFS_INLINE int gpufs_note_error_(int error) {
#if !GPUFS_ON_DEVICE
    if (error != 0) {
        errno = error;
    }
#elif !defined(__cplusplus)
    if (error != 0) {
        *gpufs_raw_errno() = error;
    }
#endif
    return error;
}
/* The error number of a raw result. */
GPUFS_INLINE int gpufs_error_of_(int64_t raw) { return raw < 0 && raw >= -4095 ? (int)-raw : 0; }

/* A number, or -1. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_int_(int64_t raw) {
    int error = gpufs_error_of_(raw);
    GPUFS_RETURN(int, error != 0 ? -1 : (int)raw, error);
}
GPUFS_INLINE GPUFS_RESULT(long) gpufs_long_(int64_t raw) {
    int error = gpufs_error_of_(raw);
    GPUFS_RETURN(long, error != 0 ? -1L : (long)raw, error);
}
GPUFS_INLINE GPUFS_RESULT(int64_t) gpufs_int64_(int64_t raw) {
    int error = gpufs_error_of_(raw);
    GPUFS_RETURN(int64_t, error != 0 ? -1 : raw, error);
}
/* A byte, or EOF. */
GPUFS_INLINE GPUFS_RESULT(int) gpufs_byte_(int64_t raw) {
    int error = gpufs_error_of_(raw);
    GPUFS_RETURN(int, error != 0 || raw == 256 ? -1 : (int)raw, error);
}
/* A count of items. */
GPUFS_INLINE GPUFS_RESULT(size_t) gpufs_items_(uint64_t raw) {
    GPUFS_RETURN(size_t, (size_t)(raw & ((UINT64_C(1) << 48) - 1)), (int)(raw >> 48));
}

#endif
