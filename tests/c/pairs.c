/* Every pair of calls in two branches of a warp, on CPU lanes: each by its own text, and all through one table of functions. Then programs that
 * use files of their own in lanes that go their own ways. Runs in a scratch directory. */
#include "check.h"

#include <errno.h>
#include <stdint.h>
#include <sys/stat.h>

#include <gpufs/aio.h>
#include <gpufs/dirent.h>
#include <gpufs/file.h>
#include <gpufs/host.h>
#include <gpufs/service.h>
#include <gpufs/pipe.h>
#include <gpufs/socket.h>
#include <gpufs/stat.h>
#include <gpufs/stdio.h>
#include <gpufs/trace.h>

/* What a thread makes calls on: a stream and a descriptor on files of its own, which hold TEXT, both at the start. */
struct mine {
    gpufs_session *fs;
    gpufs_file *file;
    int descriptor;
    char path[32];
    char other[32];  /* a name that one other file may get */
    char folder[32]; /* an empty directory */
    char absent[32]; /* a name that nothing has */
};

#define TEXT "first line\nsecond line\n"

/* What writev and its kin write. */
static const gpufs_iovec pieces[2] = {{(void *)"ab", 2}, {(void *)"cde", 3}};

/* The first line, into memory that grows from nothing. */
static int read_line(gpufs_file *file) {
    char *line = NULL;
    size_t bytes = 0;
    int is_first = gpufs_getline(&line, &bytes, file) == 11 && strcmp(line, "first line\n") == 0;
    GPUFS_FREE(line);
    return is_first;
}

/* A text in memory that grows. */
static int write_memory(gpufs_session *fs) {
    char *text = NULL;
    size_t size = 0;
    gpufs_file *file = gpufs_open_memstream(fs, &text, &size);
    int is_right = gpufs_fputs("text", file) == 0 && gpufs_fclose(file) == 0 && size == 4 && strcmp(text, "text") == 0;
    GPUFS_FREE(text);
    return is_right;
}

/* Opens a trace of the thread's own, and makes one call on it, with what that needs. */
static int traced(struct mine *m, const char *call) {
    gpufs_trace trace;
    gpufs_trace_event event;
    gpufs_trace_counter counter;
    gpufs_trace_span span;
    int is_right = gpufs_trace_open(m->fs, m->absent, &trace) == 0;
    if (strcmp(call, "trace_counter") == 0 || strcmp(call, "trace_set") == 0) {
        is_right = is_right && gpufs_trace_counter_of(&trace, call, &counter) == 0;
        is_right = is_right && (call[6] == 'c' || gpufs_trace_set(&counter, gpufs_trace_signed(-1)) == 0);
    } else if (strcmp(call, "trace_join_clocks") == 0) {
        is_right = is_right && gpufs_trace_join_clocks(&trace) == 0;
    } else if (strcmp(call, "trace_flush") == 0) {
        is_right = is_right && gpufs_trace_flush(&trace) == 0;
    } else if (strcmp(call, "trace_open") != 0 && strcmp(call, "trace_close") != 0) {
        is_right = is_right && gpufs_trace_event_of(&trace, call, NULL, 0, &event) == 0;
        if (strcmp(call, "trace_instant") == 0) {
            is_right = is_right && gpufs_trace_instant(&event, NULL) == 0;
        } else if (strcmp(call, "trace_event") != 0) {
            is_right = is_right && gpufs_trace_begin(&event, NULL, &span) == 0;
            is_right = is_right && (call[6] == 'b' || gpufs_trace_end(&span) == 0);
        }
    }
    return gpufs_trace_close(&trace) == 0 && is_right;
}

/* A read of the first line's first bytes, started; its memory stays. */
static gpufs_aiocb started(struct mine *m, char *text) {
    gpufs_aiocb block;
    memset(&block, 0, sizeof block);
    memset(text, 0, 32);
    block.aio_fildes = m->descriptor, block.aio_buf = text, block.aio_nbytes = 5;
    return block;
}

/* What a call of it comes to, and then the read. */
static int read_later(struct mine *m, int (*look)(gpufs_session *, gpufs_aiocb *)) {
    char text[32];
    gpufs_aiocb block = started(m, text);
    const gpufs_aiocb *const blocks[] = {&block};
    return gpufs_aio_read(m->fs, &block) == 0 && look(m->fs, &block) && gpufs_aio_suspend(m->fs, blocks, 1, NULL) == 0 &&
           gpufs_aio_return(m->fs, &block) == 5 && memcmp(text, "first", 5) == 0;
}
static int look_nowhere(gpufs_session *fs, gpufs_aiocb *block) {
    (void)fs;
    (void)block;
    return 1;
}
static int look_at_error(gpufs_session *fs, gpufs_aiocb *block) {
    const int error = gpufs_aio_error(fs, block);
    return error == 0 || error == EINPROGRESS;
}
/* A read of a file cannot be cancelled where it is under way, or was faster. */
static int cancel_late(gpufs_session *fs, gpufs_aiocb *block) {
    const gpufs_aiocb *const blocks[] = {block};
    return gpufs_aio_suspend(fs, blocks, 1, NULL) == 0 &&
           gpufs_aio_cancel(fs, block->aio_fildes, block) == GPUFS_AIO_ALLDONE;
}
static int write_later(struct mine *m, int syncs) {
    char text[32];
    gpufs_aiocb block = started(m, text);
    const gpufs_aiocb *const blocks[] = {&block};
    block.aio_nbytes = 3;
    return (syncs ? gpufs_aio_fsync(m->fs, GPUFS_O_DSYNC, &block) : gpufs_aio_write(m->fs, &block)) == 0 &&
           gpufs_aio_suspend(m->fs, blocks, 1, NULL) == 0 && gpufs_aio_return(m->fs, &block) == (syncs ? 0 : 3);
}
static int read_list(struct mine *m) {
    char text[32];
    gpufs_aiocb block = started(m, text);
    gpufs_aiocb *const blocks[] = {&block};
    return gpufs_lio_listio(m->fs, GPUFS_LIO_WAIT, blocks, 1, NULL) == 0 && gpufs_aio_return(m->fs, &block) == 5;
}
static int poll_later(struct mine *m) {
    char text[32];
    gpufs_aiocb block = started(m, text);
    const gpufs_aiocb *const blocks[] = {&block};
    return gpufs_aio_poll(m->fs, &block, 1) == 0 && gpufs_aio_suspend(m->fs, blocks, 1, NULL) == 0 &&
           gpufs_aio_return(m->fs, &block) == 1;
}
static int write_and_sync(struct mine *m) {
    char text[32];
    gpufs_aiocb write = started(m, text), sync = started(m, text);
    gpufs_aiocb *const chain[] = {&write, &sync};
    const gpufs_aiocb *const last[] = {&sync};
    write.aio_lio_opcode = GPUFS_LIO_WRITE, write.aio_nbytes = 3, sync.aio_lio_opcode = GPUFS_LIO_DSYNC;
    return gpufs_aio_chain(m->fs, GPUFS_CHAIN_STOPS, chain, 2) == 0 && gpufs_aio_suspend(m->fs, last, 1, NULL) == 0 &&
           gpufs_aio_return(m->fs, &sync) == 0 && gpufs_aio_error(m->fs, &write) == 0 &&
           gpufs_aio_return(m->fs, &write) == 3;
}

/* CALL(name, what it comes to on such files) */
#define CALLS(CALL)                                                                                   \
    CALL(open, gpufs_close(m->fs, gpufs_open(m->fs, m->path, GPUFS_O_RDWR, 0)) == 0)                  \
    CALL(close, gpufs_close(m->fs, m->descriptor) == 0)                                               \
    CALL(dup, gpufs_close(m->fs, gpufs_dup(m->fs, m->descriptor)) == 0)                               \
    CALL(dup2, gpufs_dup2(m->fs, m->descriptor, m->descriptor) == m->descriptor)                      \
    CALL(dup3, gpufs_dup3(m->fs, m->descriptor, m->descriptor, 0) == -1 && errno == EINVAL)           \
    CALL(read, gpufs_read(m->fs, m->descriptor, text, 5) == 5 && memcmp(text, "first", 5) == 0)       \
    CALL(write, gpufs_write(m->fs, m->descriptor, "abc", 3) == 3)                                     \
    CALL(pread, gpufs_pread(m->fs, m->descriptor, text, 4, 6) == 4 && memcmp(text, "line", 4) == 0)   \
    CALL(pwrite, gpufs_pwrite(m->fs, m->descriptor, "abc", 3, 1) == 3)                                \
    CALL(readv, gpufs_readv(m->fs, m->descriptor, &(gpufs_iovec){text, 5}, 1) == 5 && memcmp(text, "first", 5) == 0) \
    CALL(writev, gpufs_writev(m->fs, m->descriptor, pieces, 2) == 5)                                  \
    CALL(preadv, gpufs_preadv(m->fs, m->descriptor, &(gpufs_iovec){text, 4}, 1, 6) == 4 && memcmp(text, "line", 4) == 0) \
    CALL(pwritev, gpufs_pwritev(m->fs, m->descriptor, pieces, 2, 1) == 5)                             \
    CALL(preadv2, gpufs_preadv2(m->fs, m->descriptor, &(gpufs_iovec){text, 5}, 1, -1, 0) == 5)        \
    CALL(pwritev2, gpufs_pwritev2(m->fs, m->descriptor, pieces, 2, -1, GPUFS_RWF_APPEND) == 5)        \
    CALL(lseek, gpufs_lseek(m->fs, m->descriptor, -2, SEEK_END) == 21)                                \
    CALL(fsync, gpufs_fsync(m->fs, m->descriptor) == 0)                                               \
    CALL(aio_read, read_later(m, look_nowhere))                                                       \
    CALL(aio_write, write_later(m, 0))                                                                \
    CALL(aio_fsync, write_later(m, 1))                                                                \
    CALL(aio_error, read_later(m, look_at_error))                                                     \
    CALL(aio_return, gpufs_aio_return(m->fs, &(gpufs_aiocb){0}) == -1 && errno == EINVAL)             \
    CALL(aio_suspend, gpufs_aio_suspend(m->fs, NULL, 0, NULL) == -1 && errno == EINVAL)               \
    CALL(aio_cancel, read_later(m, cancel_late))                                                      \
    CALL(lio_listio, read_list(m))                                                                    \
    CALL(aio_recv, gpufs_aio_recv(m->fs, &(gpufs_aiocb){.aio_fildes = m->descriptor, .aio_buf = text}, 0) == -1 && errno == ENOTSOCK) \
    CALL(aio_send, gpufs_aio_send(m->fs, &(gpufs_aiocb){.aio_fildes = m->descriptor, .aio_buf = text}, 0) == -1 && errno == ENOTSOCK) \
    CALL(aio_poll, poll_later(m))                                                                     \
    CALL(aio_chain, write_and_sync(m))                                                                \
    CALL(fdatasync, gpufs_fdatasync(m->fs, m->descriptor) == 0)                                       \
    /* Refused before Linux 6.9. */                                                                   \
    CALL(ftruncate, gpufs_ftruncate(m->fs, m->descriptor, 5) == 0 || errno == EINVAL)                 \
    CALL(readlink, gpufs_readlink(m->fs, m->path, text, 32) == -1 && errno == EINVAL)                 \
    CALL(truncate, gpufs_truncate(m->fs, m->path, 7) == 0)                                            \
    CALL(chmod, gpufs_chmod(m->fs, m->path, 0600) == 0)                                               \
    CALL(fchmod, gpufs_fchmod(m->fs, m->descriptor, 0600) == 0)                                       \
    CALL(readlinkat, gpufs_readlinkat(m->fs, GPUFS_AT_FDCWD, m->path, text, 32) == -1 && errno == EINVAL) \
    CALL(fchmodat, gpufs_fchmodat(m->fs, GPUFS_AT_FDCWD, m->path, 0600, 0) == 0)                      \
    CALL(getfl, (gpufs_getfl(m->fs, m->descriptor) & 3) == GPUFS_O_RDWR)                              \
    CALL(access, gpufs_access(m->fs, m->path, GPUFS_R_OK) == 0)                                       \
    CALL(faccessat, gpufs_faccessat(m->fs, GPUFS_AT_FDCWD, m->path, GPUFS_R_OK, 0) == 0)              \
    CALL(utimensat, gpufs_utimensat(m->fs, GPUFS_AT_FDCWD, m->path, NULL, 0) == 0)                    \
    CALL(futimens, gpufs_futimens(m->fs, m->descriptor, NULL) == 0)                                   \
    CALL(getcwd, gpufs_getcwd(m->fs, text, 1) == NULL && errno == ERANGE)                             \
    CALL(chdir, gpufs_chdir(m->fs, ".") == 0)                                                         \
    CALL(fchdir, gpufs_fchdir(m->fs, m->descriptor) == -1 && errno == ENOTDIR)                        \
    CALL(umask, gpufs_umask(m->fs, 022) >= 0)                                                         \
    CALL(opendir, gpufs_closedir(m->fs, gpufs_opendir(m->fs, ".")) == 0)                              \
    CALL(readdir, gpufs_readdir(m->fs, m->descriptor, &entry) == -1 && errno == ENOTDIR)              \
    CALL(rewinddir, gpufs_rewinddir(m->fs, m->descriptor) == 0)                                       \
    CALL(telldir, gpufs_telldir(m->fs, m->descriptor) >= 0)                                           \
    CALL(seekdir, gpufs_seekdir(m->fs, m->descriptor, -1) == -1 && errno == EINVAL)                   \
    CALL(closedir, gpufs_closedir(m->fs, gpufs_opendir(m->fs, "/")) == 0)                             \
    CALL(flock, gpufs_flock(m->fs, m->descriptor, GPUFS_LOCK_SH) == 0)                                \
    CALL(fcntl, gpufs_fcntl(m->fs, m->descriptor, 99, NULL) == -1 && errno == EFAULT)                 \
    CALL(getenv, gpufs_getenv(m->fs, "GPUFS_NO_SUCH", text, 32) == -1 && errno == ENOENT)             \
    CALL(clock_gettime, gpufs_clock_gettime(m->fs, GPUFS_CLOCK_REALTIME, &moment) == 0)               \
    CALL(time, gpufs_time(m->fs) > 0)                                                                 \
    CALL(nanosleep, gpufs_nanosleep(m->fs, &moment) == 0)                                             \
    /* A process a pair would take long: tests/c/services.c starts one. */                            \
    CALL(popen, gpufs_popen(m->fs, "exit 3", "x") == NULL && errno == EINVAL)                         \
    CALL(pclose, gpufs_pclose(m->file) == -1 && errno == ECHILD)                                      \
    CALL(call, gpufs_call(m->fs, "none", NULL, 0, NULL, 0) == -1 && errno == ENOSYS)                  \
    CALL(socket, gpufs_close(m->fs, gpufs_socket(m->fs, 2, 1, 0)) == 0)                               \
    CALL(socketpair, gpufs_socketpair(m->fs, 2, 1, 0, (int *)text) == -1 && errno == EOPNOTSUPP)           \
    /* A file is no socket. */                                                                        \
    CALL(bind, gpufs_bind(m->fs, m->descriptor, NULL, 0) == -1 && errno == ENOTSOCK)                  \
    CALL(listen, gpufs_listen(m->fs, m->descriptor, 1) == -1 && errno == ENOTSOCK)                    \
    CALL(accept, gpufs_accept(m->fs, m->descriptor, NULL, NULL) == -1 && errno == ENOTSOCK)           \
    CALL(accept4, gpufs_accept4(m->fs, m->descriptor, NULL, NULL, 0) == -1 && errno == ENOTSOCK)      \
    CALL(connect, gpufs_connect(m->fs, m->descriptor, NULL, 0) == -1 && errno == ENOTSOCK)            \
    CALL(shutdown, gpufs_shutdown(m->fs, m->descriptor, 1) == -1 && errno == ENOTSOCK)                \
    CALL(send, gpufs_send(m->fs, m->descriptor, "abc", 3, 0) == -1 && errno == ENOTSOCK)              \
    CALL(sendto, gpufs_sendto(m->fs, m->descriptor, "a", 1, 0, NULL, 0) == -1 && errno == ENOTSOCK)   \
    CALL(recv, gpufs_recv(m->fs, m->descriptor, text, 3, 0) == -1 && errno == ENOTSOCK)               \
    CALL(recvfrom, gpufs_recvfrom(m->fs, m->descriptor, text, 1, 0, NULL, NULL) == -1 && errno == ENOTSOCK)\
    CALL(sendmsg, gpufs_sendmsg(m->fs, m->descriptor, &message, 0) == -1 && errno == ENOTSOCK)       \
    CALL(recvmsg, gpufs_recvmsg(m->fs, m->descriptor, &message, 0) == -1 && errno == ENOTSOCK)       \
    CALL(setsockopt, gpufs_setsockopt(m->fs, m->descriptor, 1, 2, "abc", 4) == -1 && errno == ENOTSOCK)\
    CALL(getsockopt, gpufs_getsockopt(m->fs, m->descriptor, 1, 2, NULL, NULL) == -1 && errno == EFAULT)\
    CALL(getsockname, gpufs_getsockname(m->fs, m->descriptor, NULL, NULL) == -1 && errno == ENOTSOCK) \
    CALL(getpeername, gpufs_getpeername(m->fs, m->descriptor, NULL, NULL) == -1 && errno == ENOTSOCK) \
    CALL(poll, gpufs_poll(m->fs, NULL, 0, 0) == 0)                                                    \
    CALL(pipe, gpufs_pipe(m->fs, ends) == 0 && gpufs_close(m->fs, ends[0]) == 0 && gpufs_close(m->fs, ends[1]) == 0)\
    CALL(pipe2, gpufs_pipe2(m->fs, ends, 1) == -1 && errno == EINVAL)                                 \
    CALL(eventfd, gpufs_close(m->fs, gpufs_eventfd(m->fs, 7, 0)) == 0)                                \
    /* A file is no pipe. */                                                                          \
    CALL(splice, gpufs_splice(m->fs, m->descriptor, NULL, m->descriptor, NULL, 5, 0) == -1 && errno == EINVAL) \
    CALL(tee, gpufs_tee(m->fs, m->descriptor, m->descriptor, 5, 0) == -1 && errno == EINVAL)          \
    CALL(openat, gpufs_close(m->fs, gpufs_openat(m->fs, GPUFS_AT_FDCWD, m->path, GPUFS_O_RDWR, 0)) == 0)\
    CALL(creat, gpufs_close(m->fs, gpufs_creat(m->fs, m->other, 0600)) == 0)                          \
    CALL(fallocate, gpufs_fallocate(m->fs, m->descriptor, 0, 0, 100) == 0)                            \
    CALL(posix_fadvise, gpufs_posix_fadvise(m->fs, m->descriptor, 0, 0, 2) == 0)                      \
    CALL(sync_file_range, gpufs_sync_file_range(m->fs, m->descriptor, 0, 0, 2) == 0)                  \
    CALL(stat, gpufs_stat(m->fs, m->path, &st) == 0 && GPUFS_S_ISREG(st.st_mode))                     \
    CALL(lstat, gpufs_lstat(m->fs, m->path, &st) == 0 && GPUFS_S_ISREG(st.st_mode))                   \
    CALL(fstat, gpufs_fstat(m->fs, m->descriptor, &st) == 0 && st.st_size >= 23)                      \
    CALL(fstatat, gpufs_fstatat(m->fs, GPUFS_AT_FDCWD, m->path, &st, 0) == 0)                         \
    CALL(statx, gpufs_statx(m->fs, GPUFS_AT_FDCWD, m->path, 0, GPUFS_STATX_BASIC_STATS, &stx) == 0)   \
    CALL(unlink, gpufs_unlink(m->fs, m->path) == 0)                                                   \
    CALL(unlinkat, gpufs_unlinkat(m->fs, GPUFS_AT_FDCWD, m->path, 0) == 0)                            \
    CALL(rmdir, gpufs_rmdir(m->fs, m->folder) == 0)                                                   \
    CALL(remove, gpufs_remove(m->fs, m->folder) == 0)                                                 \
    CALL(rename, gpufs_rename(m->fs, m->path, m->other) == 0)                                         \
    CALL(renameat, gpufs_renameat(m->fs, GPUFS_AT_FDCWD, m->path, GPUFS_AT_FDCWD, m->other) == 0)     \
    CALL(renameat2, gpufs_renameat2(m->fs, GPUFS_AT_FDCWD, m->path, GPUFS_AT_FDCWD, m->other, 0) == 0)\
    CALL(mkdir, gpufs_mkdir(m->fs, m->absent, 0700) == 0)                                             \
    CALL(mkdirat, gpufs_mkdirat(m->fs, GPUFS_AT_FDCWD, m->absent, 0700) == 0)                         \
    CALL(link, gpufs_link(m->fs, m->path, m->absent) == 0)                                            \
    CALL(linkat, gpufs_linkat(m->fs, GPUFS_AT_FDCWD, m->path, GPUFS_AT_FDCWD, m->absent, 0) == 0)     \
    CALL(symlink, gpufs_symlink(m->fs, "x", m->absent) == 0)                                          \
    CALL(symlinkat, gpufs_symlinkat(m->fs, "x", GPUFS_AT_FDCWD, m->absent) == 0)                      \
    CALL(fopen, gpufs_fclose(gpufs_fopen(m->fs, m->path, "r")) == 0)                                  \
    CALL(fopen_shared, gpufs_fclose(gpufs_fopen_shared(m->fs, m->path, "r")) == 0)                      \
    CALL(trace_open, traced(m, "trace_open"))                                                           \
    CALL(trace_event, traced(m, "trace_event"))                                                         \
    CALL(trace_counter, traced(m, "trace_counter"))                                                     \
    CALL(trace_begin, traced(m, "trace_begin"))                                                         \
    CALL(trace_end, traced(m, "trace_end"))                                                             \
    CALL(trace_instant, traced(m, "trace_instant"))                                                     \
    CALL(trace_set, traced(m, "trace_set"))                                                             \
    CALL(trace_join_clocks, traced(m, "trace_join_clocks"))                                             \
    CALL(trace_flush, traced(m, "trace_flush"))                                                         \
    CALL(trace_close, traced(m, "trace_close"))                                                         \
    CALL(fdopen, gpufs_fclose(gpufs_fdopen(m->fs, gpufs_open(m->fs, m->path, GPUFS_O_RDWR, 0), "r+")) == 0) \
    CALL(fileno, gpufs_fileno(m->file) >= 3)                                                         \
    CALL(freopen, gpufs_freopen(m->path, "r+", m->file) == m->file)                                   \
    CALL(tmpfile, gpufs_fclose(gpufs_tmpfile(m->fs)) == 0)                                            \
    CALL(fmemopen, gpufs_fclose(gpufs_fmemopen(m->fs, text, 32, "w+")) == 0)                          \
    CALL(open_memstream, write_memory(m->fs))                                                         \
    CALL(memory_text, gpufs_raw_memory_text(text, 32, NULL, m->file) == -EINVAL)                      \
    CALL(mkstemp, gpufs_close(m->fs, gpufs_mkstemp(m->fs, strcpy(text, "pairs-XXXXXX"))) == 0)        \
    CALL(fclose, gpufs_fclose(m->file) == 0)                                                          \
    CALL(fflush, gpufs_fflush(m->file) == 0)                                                          \
    CALL(fflush_all, gpufs_fflush_all(m->fs) == 0)                                                    \
    CALL(fread, gpufs_fread(text, 1, 5, m->file) == 5 && memcmp(text, "first", 5) == 0)               \
    CALL(fwrite, gpufs_fwrite("abcd", 2, 2, m->file) == 2)                                            \
    CALL(fgets, gpufs_fgets(text, 32, m->file) == text && strcmp(text, "first line\n") == 0)          \
    CALL(flockfile, (gpufs_flockfile(m->file), gpufs_funlockfile(m->file), 1))                        \
    /* A thread that flushes all streams may have it now. */                                          \
    CALL(ftrylockfile, gpufs_ftrylockfile(m->file) >= 0)                                              \
    CALL(funlockfile, (gpufs_flockfile(m->file), gpufs_funlockfile(m->file), 1))                      \
    CALL(getdelim, read_line(m->file))                                                                \
    CALL(fputs, gpufs_fputs("text", m->file) == 0)                                                    \
    CALL(puts, gpufs_puts(m->fs, "said") == 0)                                                        \
    CALL(fputc, gpufs_fputc('x', m->file) == 'x')                                                     \
    CALL(fgetc, gpufs_fgetc(m->file) == 'f')                                                          \
    CALL(ungetc, gpufs_ungetc('x', m->file) == 'x')                                                   \
    CALL(fseek, gpufs_fseek(m->file, 5, SEEK_SET) == 0)                                               \
    CALL(fseeko, gpufs_fseeko(m->file, 5, SEEK_SET) == 0)                                             \
    CALL(ftell, gpufs_ftell(m->file) == 0)                                                            \
    CALL(ftello, gpufs_ftello(m->file) == 0)                                                          \
    CALL(rewind, (gpufs_rewind(m->file), 1))                                                          \
    CALL(setvbuf, gpufs_setvbuf(m->file, NULL, _IOLBF, 64) == 0)                                      \
    CALL(feof, gpufs_feof(m->file) == 0)                                                              \
    CALL(ferror, gpufs_ferror(m->file) == 0)                                                          \
    CALL(clearerr, (gpufs_clearerr(m->file), 1))                                                      \
    CALL(fprintf, gpufs_fprintf(m->file, "%d and %s", 17, "text") == 11)                              \
    CALL(fscanf, gpufs_fscanf(m->file, "%31s", text) == 1 && strcmp(text, "first") == 0)              \
    CALL(sscanf, gpufs_sscanf("17 text", "%*d %31s", text) == 1 && strcmp(text, "text") == 0)         \
    CALL(scan_targets, gpufs_raw_scan_targets("%d %*d %s", 9) == 2)                                   \
    CALL(printf, gpufs_printf(m->fs, "%s\n", "printed") == 8)                                         \
    CALL(snprintf, gpufs_snprintf(text, 32, "%d", 17) == 2)

/* Each call as a function. */
#define FUNCTION(name, right)                \
    static int call_##name(struct mine *m) { \
        char text[32];                       \
        int ends[2];                         \
        gpufs_msghdr message = {0};          \
        struct gpufs_stat st;                \
        struct gpufs_statx stx;              \
        gpufs_dirent entry;                  \
        gpufs_timespec moment = {0, 1};      \
        (void)text, (void)st, (void)stx;     \
        (void)ends, (void)message;           \
        (void)entry, (void)moment;           \
        (void)m;                             \
        return right;                        \
    }
CALLS(FUNCTION)

/* Each call's number, its name, and its function. */
#define NUMBER(name, right) NUMBER_##name,
enum { CALLS(NUMBER) COUNT };
#define NAME(name, right) #name,
static const char *const names[] = {CALLS(NAME)};
#define POINTER(name, right) call_##name,
static int (*const functions[])(struct mine *) = {CALLS(POINTER)};

/* Each call by its own text, all at one place of the program, as far as a line says one. */
#define BRANCH(name, right) \
    case NUMBER_##name: return right;
static int by_text(int number, struct mine *m) {
    char text[32];
    int ends[2];
    gpufs_msghdr message = {0};
    struct gpufs_stat st;
    struct gpufs_statx stx;
    gpufs_dirent entry;
    gpufs_timespec moment = {0, 1};
    switch (number) { CALLS(BRANCH) }
    return 0;
}

static void begin(struct mine *m, gpufs_session *fs) {
    const unsigned long long thread = (unsigned long long)gpufs_thread();
    m->fs = fs;
    CHECK(gpufs_snprintf(m->path, sizeof m->path, "stream%llu", thread) > 0);
    m->file = gpufs_fopen(fs, m->path, "w+");
    CHECK(m->file != NULL && gpufs_fputs(TEXT, m->file) == 0);
    gpufs_rewind(m->file);
    char raw[32];
    CHECK(gpufs_snprintf(raw, sizeof raw, "raw%llu", thread) > 0);
    CHECK(gpufs_snprintf(m->other, sizeof m->other, "other%llu", thread) > 0);
    CHECK(gpufs_snprintf(m->folder, sizeof m->folder, "folder%llu", thread) > 0);
    CHECK(gpufs_snprintf(m->absent, sizeof m->absent, "absent%llu", thread) > 0);
    /* Whatever was there before, of a thread that has made the call. */
    (void)remove(m->other), (void)remove(m->absent), (void)mkdir(m->folder, 0700);
    m->descriptor = gpufs_open(fs, raw, GPUFS_O_RDWR | GPUFS_O_CREAT | GPUFS_O_TRUNC, 0600);
    CHECK(m->descriptor >= 0 && gpufs_pwrite(fs, m->descriptor, TEXT, sizeof TEXT - 1, 0) == sizeof TEXT - 1);
}

/* What the call under test has not closed. */
static void end(struct mine *m, int number) {
    CHECK(number == NUMBER_fclose || gpufs_fclose(m->file) == 0);
    CHECK(number == NUMBER_close || gpufs_close(m->fs, m->descriptor) == 0);
}

/* Warps that share the pairs, so that one goes on while another waits, and the threads of each: two in each branch. */
enum { WARPS = 16, THREADS = 4 };

/* One call, and which others come with it: each step-th of them. */
struct first {
    int call;
    int step;
};

/* The pairs of one call with the others. A pair comes twice, once from each of its calls: by text from one, through the table from the other. */
static void pairs(gpufs_session *fs, void *argument) {
    const int first = ((const struct first *)argument)->call, step = ((const struct first *)argument)->step;
    const int warp = (int)gpufs_thread() / THREADS;
    for (int second = first % step + step * warp; second < COUNT; second += step * WARPS) {
        for (int indirect = first > second; indirect <= (first >= second); ++indirect) {
            struct mine mine;
            begin(&mine, fs);
            const int number = gpufs_thread() % 2 == 0 ? first : second;
            const int right = indirect ? functions[number](&mine) : by_text(number, &mine);
            if (!right) {
                fprintf(stderr, "%s of %s and %s went wrong: errno %d\n", names[number], names[first], names[second], errno);
                abort();
            }
            end(&mine, number);
        }
    }
}

static void four_bytes(gpufs_session *fs, void *argument) {
    (void)fs;
    CHECK(gpufs_fputs("text", argument) == 0);
}

/* The branches of a report, on one stream: whether ftell comes before the close is open, that all return is not. */
static void branches(gpufs_session *fs, void *argument) {
    gpufs_file *f = argument;
    (void)fs;
    if (gpufs_thread() % 2) {
        const long position = gpufs_ftell(f);
        CHECK(position == 4 || (position == -1 && errno == EBADF));
    } else {
        (void)gpufs_fclose(f);
    }
}

/* A file a lane. */
static void own(gpufs_session *fs, void *argument) {
    char path[32];
    (void)argument;
    CHECK(gpufs_snprintf(path, sizeof path, "own%llu", (unsigned long long)gpufs_thread()) > 0);
    gpufs_file *file = gpufs_fopen(fs, path, "w+");
    CHECK(file != NULL && gpufs_fputs("text", file) == 0);
    gpufs_rewind(file);
    CHECK(gpufs_ftell(file) == 0);
    CHECK(gpufs_fclose(file) == 0);
}

/* Files of different lengths, byte by byte to their ends. */
static void lengths(gpufs_session *fs, void *argument) {
    char path[32];
    (void)argument;
    const int thread = (int)gpufs_thread(), length = thread * 13;
    CHECK(gpufs_snprintf(path, sizeof path, "length%d", thread) > 0);
    gpufs_file *file = gpufs_fopen(fs, path, "w+");
    CHECK(file != NULL && gpufs_fprintf(file, "%*s", length, "") == length);
    gpufs_rewind(file);
    int found = 0;
    while (gpufs_fgetc(file) != EOF) {
        ++found;
    }
    CHECK(found == length && gpufs_feof(file));
    CHECK(gpufs_fclose(file) == 0);
}

int main(void) {
    for (uint32_t width = 32; width <= 64; width *= 2) {
        gpufs_options options;
        memset(&options, 0, sizeof options);
        options.size = sizeof options;
        options.rings = 1;
        options.mode = GPUFS_MODE_ENTER;
        options.ring_entries = 1024;
        options.buffer_bytes = UINT64_C(4) << 20;
        options.stream_buffer_bytes = 4096;
        options.blocks_per_stream = 1;
        options.deadline_ms = 20000;
        options.warp_width = width;
        gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, &options);
        if (host == NULL) {
            fprintf(stderr, "%s\n", gpufs_last_error());
        }
        CHECK(host != NULL);
        for (int first = 0; first < COUNT; ++first) {
            /* Warps of another width have no other branches: of their pairs a part shows that they go through them. */
            struct first one = {first, width == 32 ? 1 : 5};
            CHECK(gpufs_host_launch(host, WARPS, THREADS, pairs, &one) == 0);
            if (gpufs_host_synchronize(host) != 0) {
                fprintf(stderr, "%s and another, width %u: %s\n", names[first], (unsigned)width, gpufs_last_error());
                abort();
            }
        }
        for (int round = 0; round < 100; ++round) {
            gpufs_file *file = gpufs_host_fopen(host, "branches", "w");
            CHECK(file != NULL);
            CHECK(gpufs_host_launch(host, 1, 1, four_bytes, file) == 0 && gpufs_host_synchronize(host) == 0);
            CHECK(gpufs_host_launch(host, 1, 2 + (unsigned)round % 31, branches, file) == 0);
            CHECK(gpufs_host_synchronize(host) == 0);
            CHECK(gpufs_host_launch(host, 1, 2, own, NULL) == 0 && gpufs_host_synchronize(host) == 0);
        }
        CHECK(gpufs_host_launch(host, 1, 16, lengths, NULL) == 0 && gpufs_host_synchronize(host) == 0);
        CHECK(gpufs_host_close(host) == 0);
    }
    return 0;
}
