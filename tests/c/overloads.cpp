// The standard names in C++, beside the C library's own. On CPU lanes, in a scratch directory. C++14, 17 and 20.
#include "check.h"

#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpufs/file.h>
#include <gpufs/host.h>
#include <gpufs/pipe.h>
#include <gpufs/socket.h>
#include <gpufs/stat.h>
#include <gpufs/stdio.h>

namespace {

enum Colour { red = 3 };

// The compiler's check and the run-time check say the same of every format, for arguments of each kind.
template <class T>
void formats_agree(T argument) {
    static const char *const pieces[] = {"%", "d", "s", "f", "p", "c", "*", ".", "l", "h", "ll", "L", "z", "5", "-", "0",
                                         "$", "n", "a", " x", "1$", "m", "w8", "S"};
    const int count = static_cast<int>(sizeof pieces / sizeof *pieces);
    int fitting = 0;
    char text[16];
    for (int number = 0; number < count * count * count * count; ++number) {
        std::snprintf(text, sizeof text, "%%%s%s%s%s", pieces[number % count], pieces[number / count % count],
                      pieces[number / count / count % count], pieces[number / count / count / count]);
        char out[64];
        const bool compiled = gpufs::detail::fits(gpufs::detail::Types<T>(), text);
        const gpufs_argument one[] = {gpufs::detail::argument(argument), {99, 0, 0}};
        const bool one_is_taken = gpufs::detail::takes_all(gpufs::detail::Types<T>(), text);
        const bool one_is_enough = gpufs_snprintf_arguments(out, sizeof out, text, strlen(text), one, 1) >= 0;
        const bool none_is_enough = gpufs_snprintf_arguments(out, sizeof out, text, strlen(text), one, 0) >= 0;
        // What fits one fits one that is ignored.
        if (compiled != one_is_enough || (compiled && one_is_taken == none_is_enough)) {
            std::fprintf(stderr, "%s: %d, but %d and %d\n", text, compiled, one_is_enough, none_is_enough);
            std::abort();
        }
        fitting += compiled && one_is_taken;
    }
    CHECK(fitting > 100);
}

void kernel(gpufs_session *tables, void *argument) {
    gpufs::Session fs = tables;
    const char *dynamic = static_cast<const char *>(argument);
    char array[8] = "array";
    unsigned char bytes[] = "bytes";
    const std::size_t size = 7;
    const short small = -2;
    const bool yes = true;

    auto out = fopen(fs, "overloads", "w");
    CHECK(out && out != nullptr && out.error() == 0);
    gpufs::File *file = fopen(tables, "other", "w+");
    CHECK(file != nullptr);
    gpufs::File *mine = fopen_shared(fs, "shared", "w"), *ours = fopen_shared(tables, "shared", "wb");
    CHECK(mine != nullptr && mine == ours && fclose(mine) == 0 && fclose(ours) == 0 && fclose(ours).error() == EBADF);
    const int printed = fprintf(out, "%s %s %zu %hd %d %d %p %5.1f %c %s\n", "literal", array, size, small, yes, red, static_cast<void *>(nullptr),
                                1.5f, 'c', bytes);
    CHECK(printed == 43);
    CHECK(fprintf(out, "no arguments\n") == 13);
    CHECK(fprintf(out, dynamic, 1) == 4);
    CHECK(gpufs_fprintf(out, "%s %d\n", "checked", 1) == 10 && gpufs_fprintf(out, "checked\n") == 8);
    CHECK(gpufs_fprintf(out, dynamic, 2) == 4);
    CHECK(std::fprintf(stderr, "%s", "") == 0 && fprintf(stderr, "%s", "") == 0);
    CHECK(printf(fs, "%d: %s\n", static_cast<int>(fprintf(file, "%s", "four")), "printed") == 11);
    CHECK(gpufs_printf(fs, "%s\n", "printed too") == 12);
    char text[32];
    long scanned = 0;
    double real = 0;
    char *allocated = nullptr;
    CHECK(gpufs::sscanf("5 2.5 word", "%ld %lf %31s", &scanned, &real, text) == 3 && scanned == 5 && real == 2.5);
    const char *allocating = "%ms %ld";
    CHECK(gpufs_sscanf("word 7", allocating, &allocated, &scanned) == 2 && strcmp(allocated, "word") == 0 && scanned == 7);
    GPUFS_FREE(allocated);
    const char *narrow = "%d";
    CHECK(gpufs::sscanf("5", narrow, &scanned).error() == EINVAL && gpufs::sscanf("", "%ld", &scanned) == -1);
    gpufs::Result<int> (*scans)(const char *, const char *, ...) = gpufs_sscanf;
    CHECK(scans("8", "%ld", &scanned) == 1 && scanned == 8);
    CHECK(gpufs::snprintf(text, sizeof text, "%d-%s", 5, "x") == 3 && gpufs_snprintf(text, sizeof text, "%u", 5u) == 1);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wuser-defined-warnings"
#endif
    // What a format does not take is evaluated and ignored.
    int evaluated = 0;
    CHECK(gpufs::snprintf(text, sizeof text, "%d%%", 5, ++evaluated, 2.5) == 2 && strcmp(text, "5%") == 0);
    CHECK(gpufs_snprintf(text, sizeof text, "%d%%", 5, ++evaluated, "x") == 2 && evaluated == 2);
#pragma GCC diagnostic pop
    CHECK(puts(fs, "put") == 0 && fputs("\nline\n", file) == 0 && fputc('z', file) == 'z');
    rewind(file);
    int byte, count = 0;
    while ((byte = fgetc(file)) != EOF) {
        ++count;
    }
    CHECK(count == 11 && feof(file) && !ferror(file));
    clearerr(file);
    CHECK(fseek(file, 5, SEEK_SET) == 0 && ftell(file) == 5 && fseeko(file, 5, SEEK_SET) == 0 && ftello(file) == 5);
    CHECK(fgets(text, sizeof text, file) == text && strcmp(text, "line\n") == 0);
    CHECK(fread(text, 1, 10, file) == 1 && ungetc('y', file) == 'y' && setvbuf(file, nullptr, _IOFBF, 0) == 0);
    gpufs_fpos_t position{};
    setlinebuf(file), setbuf(file, nullptr), setbuffer(file, text, sizeof text);
    CHECK(fgetpos(file, &position) == 0 && fsetpos(file, &position) == 0 && fwide(file, 0) == -1);
    CHECK(getc(file) == 'z' && getc_unlocked(file) == EOF && fgetc_unlocked(file) == EOF && feof_unlocked(file));
    clearerr_unlocked(file);
    CHECK(fseek(file, 0, SEEK_END) == 0 && putc('p', file) == 'p' && putc_unlocked('q', file) == 'q');
    CHECK(fputc_unlocked('r', file) == 'r' && fputs_unlocked("s", file) == 0 && fwrite_unlocked("t", 1, 1, file) == 1);
    CHECK(fflush_unlocked(file) == 0 && fseek(file, -4, SEEK_END) == 0 && fread_unlocked(text, 1, 2, file) == 2);
    CHECK(fgets_unlocked(text, 3, file) == text && strcmp(text, "st") == 0 && !ferror_unlocked(file));
    char *line = nullptr;
    size_t room = 0;
    rewind(file), flockfile(file);
    CHECK(ftrylockfile(file) == 0 && getline(&line, &room, file) == 5 && getdelim(&line, &room, 'l', file) == 1);
    funlockfile(file), funlockfile(file), GPUFS_FREE(line);
    CHECK(putchar(fs, '+') == '+' && putchar_unlocked(fs, '\n') == '\n');
    CHECK(getchar(gpufs::Session(nullptr)).error() == EBADF && getchar_unlocked(gpufs::Session(nullptr)).error() == EBADF);
    CHECK(fwrite("", 1, 0, file) == 0 && fflush(file) == 0 && fflush(fs) == 0);
    CHECK(fclose(file) == 0);

    // The error is in the result, and in errno.
    auto missing = fopen(fs, "missing", "r");
    CHECK(!missing && missing.error() == ENOENT && errno == ENOENT);
    auto closed = fprintf(file, "%d", 1);
    CHECK(closed == -1 && closed.error() == EBADF);
    auto short_count = fwrite("x", 1, 1, static_cast<gpufs::File *>(nullptr));
    CHECK(short_count == 0 && short_count.error() == EBADF && short_count.value() == 0);
    auto wrong = fprintf(out, +"%s", 1.5);
    CHECK(wrong < 0 && wrong.error() == EINVAL);
    auto null = fprintf(out, static_cast<const char *>(nullptr), 1.5);
    CHECK(null < 0 && null.error() == EINVAL);
    // A format that does not end: an array says how long it is; a pointer has a bound.
    char unended[3] = {'a', 'b', 'c'};
    static char endless[GPUFS_FORMAT_BYTES + 1];
    memset(endless, 'x', GPUFS_FORMAT_BYTES);
#if defined(__cpp_consteval)
    auto over = fprintf(out, unended);
    CHECK(over < 0 && over.error() == EINVAL);
#endif
    (void)unended;
    const char *pointer = endless;
    auto far_over = fprintf(out, pointer);
    CHECK(far_over < 0 && far_over.error() == EINVAL);
    CHECK(gpufs::snprintf(text, sizeof text, pointer).error() == EINVAL && printf(fs, pointer).error() == EINVAL);
    CHECK(fclose(out) == 0);

    auto descriptor = open(fs, "overloads", O_RDWR);
    CHECK(descriptor >= 0 && read(fs, descriptor, text, 7) == 7 && lseek(fs, descriptor, 0, SEEK_CUR) == 7);
    CHECK(pread(fs, descriptor, text, 3, 0) == 3 && pwrite(fs, descriptor, "LIT", 3, 0) == 3 && write(fs, descriptor, "_", 1) == 1);
    CHECK(fsync(fs, descriptor) == 0 && fdatasync(fs, descriptor) == 0 && ftruncate(fs, descriptor, 8) == 0 && close(fs, descriptor) == 0);
    auto other = open(fs, "vectors", O_RDWR | O_CREAT, 0600);
    const gpufs_iovec two[] = {{text, 2}, {text + 4, 3}};
    CHECK(writev(fs, other, two, 2) == 5 && pwritev(fs, other, two, 2, 1) == 5 && pwritev2(fs, other, two, 2, -1, 0) == 5);
    CHECK(readv(fs, other, two, 2) == 0 && preadv(fs, other, two, 2, 6) == 4 && preadv2(fs, other, two, 2, 0, 0) == 5);
    CHECK(writev(fs, other, two, -1).error() == EINVAL && close(fs, other) == 0);
    gpufs::Stat status;
    gpufs::Statx more;
    CHECK(mkdir(fs, "overloaded", 0700) == 0 && stat(fs, "overloaded", &status) == 0 && GPUFS_S_ISDIR(status.st_mode));
    auto folder = open(fs, "overloaded", O_DIRECTORY);
    CHECK(fstat(fs, folder, &status) == 0 && mkdirat(fs, folder, "in", 0700) == 0 && fstatat(fs, folder, "in", &status, 0) == 0);
    CHECK(statx(fs, folder, "in", 0, GPUFS_STATX_BASIC_STATS, &more) == 0 && unlinkat(fs, folder, "in", AT_REMOVEDIR) == 0);
    auto made = openat(fs, folder, "made", O_CREAT | O_RDWR, 0600);
    CHECK(made >= 0 && fallocate(fs, made, 0, 0, 100) == 0 && posix_fadvise(fs, made, 0, 0, 0) == 0 && sync_file_range(fs, made, 0, 0, 2) == 0);
    CHECK(close(fs, made) == 0 && symlink(fs, "made", "overloaded/soft") == 0 && lstat(fs, "overloaded/soft", &status) == 0);
    CHECK(link(fs, "overloaded/made", "overloaded/hard") == 0 && linkat(fs, folder, "made", folder, "harder", 0) == 0);
    CHECK(symlinkat(fs, "x", folder, "softer") == 0 && renameat(fs, folder, "softer", folder, "soft") == 0);
    CHECK(renameat2(fs, folder, "hard", folder, "harder", 0) == 0 && rename(fs, "overloaded/hard", "overloaded/harder") == 0);
    CHECK(unlink(fs, "overloaded/made") == 0 && unlink(fs, "overloaded/harder") == 0 && unlink(fs, "overloaded/soft") == 0);
    CHECK(close(fs, folder) == 0 && remove(fs, "overloaded") != 0 && remove(fs, "overloaded/hard") == 0 && rmdir(fs, "overloaded") == 0);
    auto gone = stat(fs, "overloaded", &status);
    CHECK(gone == -1 && gone.error() == ENOENT && creat(fs, "overloaded/x", 0).error() == ENOENT);
    char template_[] = "made-XXXXXX";
    auto opened = fdopen(fs, mkstemp(fs, template_), "w+");
    CHECK(opened && gpufs_fileno(opened) >= 0 && freopen("vectors", "r", opened) == opened && fclose(opened) == 0);
    CHECK(freopen("vectors", "r", opened.value()).error() == EBADF && fclose(tmpfile(fs)) == 0);
    char unused[20];
    auto once = open(fs, "vectors", O_RDONLY, 0), twice = dup(fs, once);
    CHECK(twice >= 0 && dup2(fs, once, twice) == twice && dup3(fs, once, twice, 0) == twice);
    CHECK(close(fs, once) == 0 && close(fs, twice) == 0 && dup(fs, once).error() == EBADF);
    int ends[2];
    CHECK(pipe(fs, ends) == 0 && write(fs, ends[1], "abc", 3) == 3 && read(fs, ends[0], text, 3) == 3);
    CHECK(splice(fs, ends[0], nullptr, ends[1], nullptr, 1, 0).error() == EINVAL && tee(fs, ends[0], ends[1], 1, 0).error() == EINVAL);
    CHECK(close(fs, ends[0]) == 0 && close(fs, ends[1]) == 0 && pipe2(fs, ends, 1).error() == EINVAL);
    auto counter = eventfd(fs, 1, 0);
    CHECK(counter >= 0 && close(fs, counter) == 0 && eventfd(fs, 0, 2).error() == EINVAL);
    gpufs_msghdr message{};
    CHECK(sendmsg(fs, descriptor, &message, 0).error() == EBADF && recvmsg(fs, descriptor, nullptr, 0).error() == EFAULT);
    CHECK(tmpnam(fs, unused) == unused && access(unused, F_OK) != 0);
    char memory[8], *grown = nullptr;
    size_t grown_bytes = 0;
    auto fixed = fmemopen(fs, memory, sizeof memory, "w");
    CHECK(fixed && fputs("abc", fixed) == 0 && fclose(fixed) == 0 && strcmp(memory, "abc") == 0);
    auto growing = open_memstream(fs, &grown, &grown_bytes);
    CHECK(growing && fputs("abcd", growing) == 0 && fclose(growing) == 0 && grown_bytes == 4);
    GPUFS_FREE(grown);
    CHECK(fmemopen(fs, memory, 1, "q").error() == EINVAL && open_memstream(fs, nullptr, &grown_bytes).error() == EINVAL);
    auto bad = read(fs, descriptor, text, 1);
    CHECK(bad == -1 && bad.error() == EBADF);
}

} // namespace

int main() {
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, nullptr);
    CHECK(host != nullptr);
    char dynamic[] = "%3d\n";
    CHECK(gpufs_host_launch(host, 1, 1, kernel, dynamic) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_close(host) == 0);
    char text[64];
    CHECK(slurp("overloads", text, sizeof text) == 8 && strcmp(text, "LITeral_") == 0);
    formats_agree(1);
    formats_agree(1.5);
    formats_agree("text");
    formats_agree(static_cast<void *>(nullptr));
    int place = 0;
    long long_place = 0;
    signed char bytes[] = "bytes";
    formats_agree(&place);
    formats_agree(&long_place);
    formats_agree(bytes);
    formats_agree(L"w\u00efde");
    std::puts("the names are as they should be");
}
