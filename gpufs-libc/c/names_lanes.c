/* The standard names of streams and files for what declares them by hand, on CPU lanes: `int puts(const char *);` without <stdio.h>, or fileno under
 * -std=c11, which hides it. In a source that includes the headers the names are gpufs's own functions, and none of these is called.
 *
 * Each is weak, so that a program's own function of the name is the program's, and hidden, so that libgpufs and the C library keep to their own.
 */
#define _GNU_SOURCE
#include <aio.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <wchar.h>

/* The headers' function of the name, which is static, as a weak and hidden one. For clang it has another name (<gpufs/standard/mode.h>). */
#if defined(__clang__)
#define SET_(name) "\n\t.set " name ", gpufs_standard_" name
#else
#define SET_(name)
#endif
#define NAME(name)                                                                 \
    static __typeof__(&name) const gpufs_name_##name __attribute__((used)) = name; \
    __asm__(".weak " #name "\n\t.hidden " #name SET_(#name));
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
NAME(__fsetlocking) NAME(_flushlbf) NAME(accept) NAME(accept4) NAME(access) NAME(aio_cancel) NAME(aio_error)
NAME(aio_fsync) NAME(aio_read) NAME(aio_return) NAME(aio_suspend) NAME(aio_write) NAME(asprintf) NAME(bind)
NAME(chdir) NAME(chmod) NAME(clearerr) NAME(clearerr_unlocked) NAME(close) NAME(closedir) NAME(connect) NAME(creat)
NAME(creat64) NAME(ctermid) NAME(dirfd) NAME(dprintf) NAME(dup) NAME(dup2) NAME(dup3) NAME(eventfd) NAME(eventfd_read)
NAME(eventfd_write) NAME(faccessat) NAME(fallocate) NAME(fallocate64) NAME(fchdir) NAME(fchmod) NAME(fchmodat)
NAME(fclose) NAME(fcntl) NAME(fdatasync) NAME(fdopen) NAME(fdopendir) NAME(feof) NAME(feof_unlocked) NAME(ferror)
NAME(ferror_unlocked) NAME(fflush) NAME(fflush_unlocked) NAME(fgetc) NAME(fgetc_unlocked) NAME(fgetpos)
NAME(fgetpos64) NAME(fgets) NAME(fgets_unlocked) NAME(fgetwc) NAME(fgetwc_unlocked) NAME(fgetws) NAME(fgetws_unlocked)
NAME(fileno) NAME(fileno_unlocked) NAME(flock) NAME(flockfile) NAME(fmemopen) NAME(fopen) NAME(fopen64) NAME(fprintf)
NAME(fputc) NAME(fputc_unlocked) NAME(fputs) NAME(fputs_unlocked) NAME(fputwc) NAME(fputwc_unlocked) NAME(fputws)
NAME(fputws_unlocked) NAME(fread) NAME(fread_unlocked) NAME(freopen) NAME(freopen64) NAME(fscanf) NAME(fseek)
NAME(fseeko) NAME(fseeko64) NAME(fsetpos) NAME(fsetpos64) NAME(fstat) NAME(fstat64) NAME(fstatat) NAME(fstatat64)
NAME(fsync) NAME(ftell) NAME(ftello) NAME(ftello64) NAME(ftruncate) NAME(ftruncate64) NAME(ftrylockfile)
NAME(funlockfile) NAME(futimens) NAME(fwide) NAME(fwprintf) NAME(fwrite) NAME(fwrite_unlocked) NAME(fwscanf)
NAME(getc) NAME(getc_unlocked) NAME(getchar) NAME(getchar_unlocked) NAME(getcwd) NAME(getdelim) NAME(getline)
NAME(getpeername) NAME(getsockname) NAME(getsockopt) NAME(getw) NAME(getwc) NAME(getwc_unlocked) NAME(getwchar)
NAME(getwchar_unlocked) NAME(isatty) NAME(link) NAME(linkat) NAME(lio_listio) NAME(listen) NAME(lockf) NAME(lockf64)
NAME(lseek) NAME(lseek64) NAME(lstat) NAME(lstat64) NAME(mkdir) NAME(mkdirat) NAME(mkostemp) NAME(mkostemp64)
NAME(mkstemp) NAME(mkstemp64) NAME(open) NAME(open64) NAME(open_memstream) NAME(open_wmemstream) NAME(openat)
NAME(openat64) NAME(opendir) NAME(pclose) NAME(perror) NAME(pipe) NAME(pipe2) NAME(poll) NAME(popen)
NAME(posix_fadvise) NAME(posix_fadvise64) NAME(posix_fallocate) NAME(posix_fallocate64) NAME(pread) NAME(pread64)
NAME(preadv) NAME(preadv2) NAME(preadv64) NAME(printf) NAME(putc) NAME(putc_unlocked) NAME(putchar)
NAME(putchar_unlocked) NAME(puts) NAME(putw) NAME(putwc) NAME(putwc_unlocked) NAME(putwchar) NAME(putwchar_unlocked)
NAME(pwrite) NAME(pwrite64) NAME(pwritev) NAME(pwritev2) NAME(pwritev64) NAME(read) NAME(readdir) NAME(readdir64)
NAME(readdir_r) NAME(readlink) NAME(readlinkat) NAME(readv) NAME(recv) NAME(recvfrom) NAME(recvmsg) NAME(remove)
NAME(rename) NAME(renameat) NAME(renameat2) NAME(rewind) NAME(rewinddir) NAME(rmdir) NAME(scanf) NAME(seekdir)
NAME(send) NAME(sendmsg) NAME(sendto) NAME(setbuf) NAME(setbuffer) NAME(setlinebuf) NAME(setsockopt) NAME(setvbuf)
NAME(shutdown) NAME(snprintf) NAME(socket) NAME(socketpair) NAME(splice) NAME(sprintf) NAME(sscanf) NAME(stat)
NAME(stat64) NAME(swprintf) NAME(swscanf) NAME(symlink) NAME(symlinkat) NAME(sync_file_range) NAME(tee) NAME(telldir)
NAME(tmpfile) NAME(tmpfile64) NAME(tmpnam) NAME(truncate) NAME(truncate64) NAME(umask) NAME(ungetc) NAME(ungetwc)
NAME(unlink) NAME(unlinkat) NAME(utimensat) NAME(vasprintf) NAME(vdprintf) NAME(vfprintf) NAME(vfscanf)
NAME(vfwprintf) NAME(vfwscanf) NAME(vprintf) NAME(vscanf) NAME(vsnprintf) NAME(vsprintf) NAME(vsscanf) NAME(vswprintf)
NAME(vswscanf) NAME(vwprintf) NAME(vwscanf) NAME(wprintf) NAME(write) NAME(writev) NAME(wscanf)
