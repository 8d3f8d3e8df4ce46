// The device calls from CUDA C++ on a GPU: right and wrong use, errors of threads beside each other, one stream shared by a whole grid.
// gpu DIRECTORY
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <gpufs/file.h>
#include <gpufs/host.h>
#include <gpufs/pipe.h>
#include <gpufs/stat.h>
#include <gpufs/stdio.h>
#include <gpufs/view.h>

namespace {

struct Notes {
    unsigned long long failures;
    int line[16];
};

#define EXPECT(condition)                                                              \
    do {                                                                               \
        if (!(condition)) {                                                            \
            unsigned long long place = atomicAdd(&notes->failures, 1ull);              \
            if (place < 16) notes->line[place] = __LINE__;                             \
        }                                                                              \
    } while (0)

__device__ bool same(const char *left, const char *right, size_t bytes) {
    for (size_t at = 0; at < bytes; ++at) {
        if (left[at] != right[at]) return false;
    }
    return true;
}

// Every call, in one thread.
__global__ void calls(gpufs::Session fs, const char *path, const char *missing, Notes *notes) {
    char text[64];
    auto file = fopen(fs, path, "w+");
    EXPECT(file && file.error() == 0);
    EXPECT(fprintf(file, "%s %d %5.2f %c %llx\n", "one", -1, 2.5, 'c', 0xfeedfacecafeULL) == 28);
    EXPECT(gpufs_fprintf(file, "%d%%\n", 7) == 3);
    EXPECT(fputs("two\n", file) == 0 && fputc('3', file) == '3' && fwrite("45678", 2, 2, file) == 2);
    EXPECT(ftell(file) == 40 && fflush(file) == 0);
    rewind(file);
    EXPECT(fgets(text, sizeof text, file) == text && same(text, "one -1  2.50 c feedfacecafe\n", 29));
    EXPECT(fgetc(file) == '7' && ungetc('8', file) == '8' && fread(text, 1, 5, file) == 5 && same(text, "8%\ntw", 5));
    EXPECT(fseek(file, -1, GPUFS_SEEK_END) == 0 && fgetc(file) == '7' && !feof(file));
    auto end = fgetc(file);
    EXPECT(end == GPUFS_EOF && end.error() == 0 && feof(file) && !ferror(file));
    clearerr(file);
    EXPECT(!feof(file) && setvbuf(file, nullptr, GPUFS_IOLBF, 256) == 0);
    EXPECT(gpufs::snprintf(text, 4, "%d", 123456) == 6 && same(text, "123", 4));
    auto wrong = fprintf(file, +"%s", 1.5);
    EXPECT(wrong == -1 && wrong.error() == EINVAL);
    wrong = fprintf(file, +"%", 1);
    EXPECT(wrong == -1 && wrong.error() == EINVAL);
    wrong = fprintf(file, static_cast<const char *>(nullptr));
    EXPECT(wrong == -1 && wrong.error() == EINVAL);
    auto nowhere = fwrite(nullptr, 1, 5, file);
    EXPECT(nowhere == 0 && nowhere.error() == EFAULT);
    EXPECT(fclose(file) == 0);
    auto again = fopen(fs, path, "r");
    EXPECT(again && again.value() != file.value());
    int local = 0;
    gpufs::File *const bad[] = {nullptr, file, reinterpret_cast<gpufs::File *>(&local), reinterpret_cast<gpufs::File *>(notes),
                                reinterpret_cast<gpufs::File *>(static_cast<gpufs_session *>(fs)), reinterpret_cast<gpufs::File *>(~0ull),
                                reinterpret_cast<gpufs::File *>(1ull)};
    for (gpufs::File *stream : bad) {
        auto printed = fprintf(stream, "%d", 1);
        EXPECT(printed == -1 && printed.error() == EBADF);
        auto count = fread(text, 1, 1, stream);
        EXPECT(count == 0 && count.error() == EBADF);
        EXPECT(fclose(stream).error() == EBADF && fflush(stream).error() == EBADF && fgetc(stream).error() == EBADF);
        EXPECT(ftell(stream).error() == EBADF && feof(stream) && ferror(stream));
    }
    EXPECT(fclose(again) == 0);
    auto none = fopen(fs, missing, "r");
    EXPECT(!none && none.error() == ENOENT);
    EXPECT(fopen(static_cast<gpufs_session *>(nullptr), path, "r").error() == EINVAL);
    EXPECT(fopen(fs, nullptr, "r").error() == EFAULT && fopen(fs, path, "q").error() == EINVAL);

    auto descriptor = open(fs, path, GPUFS_O_RDWR);
    EXPECT(descriptor >= 3);
    EXPECT(read(fs, descriptor, text, 3) == 3 && same(text, "one", 3) && lseek(fs, descriptor, 0, GPUFS_SEEK_CUR) == 3);
    EXPECT(pwrite(fs, descriptor, "ONE", 3, 0) == 3 && pread(fs, descriptor, text, 3, 0) == 3 && same(text, "ONE", 3));
    EXPECT(write(fs, descriptor, "_", 1) == 1 && fsync(fs, descriptor) == 0 && fdatasync(fs, descriptor) == 0);
    const gpufs_iovec two[] = {{text, 1}, {text + 2, 1}};
    EXPECT(preadv(fs, descriptor, two, 2, 0) == 2 && text[0] == 'O' && text[2] == 'N' && pwritev(fs, descriptor, two, 2, 0) == 2);
    EXPECT(readv(fs, descriptor, two, 2) == 2 && writev(fs, descriptor, two, 2) == 2);
    EXPECT(preadv2(fs, descriptor, two, 2, -1, 0) >= 0 && pwritev2(fs, descriptor, two, 2, 0, 0) == 2);
    EXPECT(readv(fs, descriptor, two, -1).error() == EINVAL && writev(fs, descriptor, nullptr, 1).error() == EFAULT);
    EXPECT(ftruncate(fs, descriptor, 4) == 0 && close(fs, descriptor) == 0);
    EXPECT(read(fs, descriptor, text, 1).error() == EBADF && open(fs, missing, GPUFS_O_RDONLY).error() == ENOENT);
    EXPECT(printf(fs, "%s from the GPU\n", "hello") == 19 && puts(fs, "and puts") == 0 && fflush(fs) == 0);
}

// Paths and metadata, in every thread on names of its own in `directory`.
__global__ void names(gpufs::Session fs, const char *directory, const char *missing, Notes *notes) {
    char first[512], second[512];
    gpufs::Stat status;
    gpufs::Statx more;
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    EXPECT(gpufs::snprintf(first, sizeof first, "%s/gpufs_name%u", directory, thread) < 512);
    EXPECT(gpufs::snprintf(second, sizeof second, "%s/gpufs_other%u", directory, thread) < 512);
    (void)remove(fs, first), (void)remove(fs, second);
    EXPECT(mkdir(fs, first, 0700) == 0 && stat(fs, first, &status) == 0 && GPUFS_S_ISDIR(status.st_mode));
    auto dir = open(fs, first, GPUFS_O_DIRECTORY);
    auto file = openat(fs, dir, "file", GPUFS_O_CREAT | GPUFS_O_RDWR, 0600);
    EXPECT(dir >= 0 && file >= 0 && write(fs, file, "0123456789", thread % 11) == thread % 11);
    EXPECT(fstat(fs, file, &status) == 0 && status.st_size == thread % 11 && status.st_nlink == 1);
    EXPECT(linkat(fs, dir, "file", dir, "hard", 0) == 0 && symlinkat(fs, "hard", dir, "soft") == 0);
    EXPECT(fstatat(fs, dir, "soft", &status, 0) == 0 && status.st_nlink == 2);
    EXPECT(fstatat(fs, dir, "soft", &status, GPUFS_AT_SYMLINK_NOFOLLOW) == 0 && status.st_size == 4);
    EXPECT(statx(fs, dir, "hard", 0, GPUFS_STATX_BASIC_STATS, &more) == 0 && more.stx_size == thread % 11);
    EXPECT(fallocate(fs, file, 0, 0, 4096) == 0 && posix_fadvise(fs, file, 0, 0, 0) == 0 && sync_file_range(fs, file, 0, 0, 2) == 0);
    EXPECT(renameat(fs, dir, "hard", dir, "file2") == 0 && renameat2(fs, dir, "file2", dir, "file", GPUFS_RENAME_NOREPLACE).error() == EEXIST);
    EXPECT(rename(fs, first, second) == 0 && stat(fs, first, &status).error() == ENOENT && rmdir(fs, second).error() == ENOTEMPTY);
    EXPECT(unlinkat(fs, dir, "file", 0) == 0 && unlinkat(fs, dir, "file2", 0) == 0 && unlinkat(fs, dir, "soft", 0) == 0);
    EXPECT(close(fs, file) == 0 && close(fs, dir) == 0 && remove(fs, second) == 0 && remove(fs, second).error() == ENOENT);
    EXPECT(stat(fs, missing, &status).error() == ENOENT && stat(fs, nullptr, &status).error() == EFAULT);
    EXPECT(stat(fs, second, nullptr).error() == EFAULT && fstat(fs, file, &status).error() == EBADF);
}

// Streams on memory, on each thread's own stack and on its part of the device's heap; descriptors twice.
__global__ void in_memory(gpufs::Session fs, Notes *notes) {
    char own[16] = "0123456789abcde", line[16];
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    auto file = fmemopen(fs, own, sizeof own, "w");
    EXPECT(file && fprintf(file, "thread %3u", thread) == 10 && fflush(file) == 0 && own[10] == 0 && own[11] == 'b');
    EXPECT(gpufs::snprintf(line, sizeof line, "thread %3u", thread) == 10 && same(own, line, 11));
    EXPECT(fseek(file, 0, GPUFS_SEEK_SET) == 0 && fputc('T', file) == 'T' && fclose(file) == 0 && same(own, "Thread ", 7));
    file = fmemopen(fs, own, sizeof own, "a+");
    EXPECT(file && ftell(file) == 10 && fputs("!", file) == 0 && fseek(file, 7, GPUFS_SEEK_SET) == 0);
    EXPECT(fgets(line, sizeof line, file) == line && line[3] == '!' && fclose(file) == 0 && own[10] == '!');
    file = fmemopen(fs, own, sizeof own, "w");
    EXPECT(file && fputs("more than sixteen", file) == 0 && fflush(file).error() == ENOSPC && same(own, "more than sixte", 16));
    EXPECT(fclose(file) == 0 && fclose(file).error() == EBADF);
    EXPECT(fmemopen(fs, own, 16, "q").error() == EINVAL && fmemopen(fs, nullptr, 16, nullptr).error() == EFAULT);
    char *text = nullptr;
    size_t size = 0;
    auto growing = open_memstream(fs, &text, &size);
    for (int part = 0; part < 50; ++part) EXPECT(fprintf(growing, "%6u %2d\n", thread, part) == 10);
    EXPECT(fflush(growing) == 0 && size == 500 && text[500] == 0);
    EXPECT(fputs("end", growing) == 0 && fclose(growing) == 0 && size == 503 && same(text + 500, "end", 4));
    for (int part = 0; part < 50; ++part) {
        EXPECT(gpufs::snprintf(line, sizeof line, "%6u %2d\n", thread, part) == 10 && same(text + 10 * part, line, 10));
    }
    GPUFS_FREE(text);
    EXPECT(open_memstream(fs, nullptr, &size).error() == EINVAL);
    // Descriptors twice: of /dev/null, onto numbers of the thread's own.
    auto null = open(fs, "/dev/null", GPUFS_O_RDWR), twice = dup(fs, null);
    EXPECT(null >= 0 && twice >= 0 && write(fs, twice, "x", 1) == 1 && dup2(fs, null, twice) == twice && dup3(fs, twice, null, 0) == null);
    EXPECT(close(fs, null) == 0 && write(fs, twice, "x", 1) == 1 && close(fs, twice) == 0);
    int ends[2];
    EXPECT(pipe(fs, ends) == 0 && write(fs, ends[1], "x", 1) == 1 && read(fs, ends[0], line, 1) == 1 && line[0] == 'x');
    EXPECT(close(fs, ends[0]) == 0 && close(fs, ends[1]) == 0 && pipe2(fs, ends, 1).error() == EINVAL && pipe(fs, nullptr).error() == EFAULT);
    auto counter = eventfd(fs, 1, 0);
    EXPECT(counter >= 0 && close(fs, counter) == 0 && eventfd(fs, 0, 2).error() == EINVAL);
    EXPECT(dup(fs, -1).error() == EBADF && dup2(fs, -1, 1).error() == EBADF && dup3(fs, 1, 1, 0).error() == EINVAL);
}

// Wrong use, in every lane of a warp and in all ways but those that no library can tell: an error each, and the kernel goes on. `session` is
// null where the host forgot gpufs_host_begin. `endless` are GPUFS_FORMAT_BYTES bytes without a NUL, `closed` is a stream that was closed before.
__global__ void wrong_use(gpufs::Session fs, gpufs::Session session, gpufs::File *out, gpufs::File *closed, const char *endless, Notes *notes) {
    char text[16];
    // No session.
    EXPECT(gpufs_stdin(session) == nullptr && gpufs_stdout(session) == nullptr && gpufs_stderr(session) == nullptr);
    auto none = fopen(session, "x", "r");
    EXPECT(!none && none.error() == EINVAL);
    EXPECT(puts(session, "x").error() == EINVAL && fflush(session).error() == EINVAL);
    auto unsaid = printf(session, "%d", 1);
    EXPECT(unsaid == -1 && unsaid.error() == EBADF);
    EXPECT(open(session, "x", GPUFS_O_RDONLY).error() == EINVAL && close(session, 0).error() == EINVAL);
    EXPECT(read(session, 0, text, 1).error() == EINVAL && write(session, 1, text, 1).error() == EINVAL);
    EXPECT(pread(session, 0, text, 1, 0).error() == EINVAL && pwrite(session, 1, text, 1, 0).error() == EINVAL);
    EXPECT(lseek(session, 0, 0, GPUFS_SEEK_SET).error() == EINVAL && fsync(session, 0).error() == EINVAL);
    EXPECT(fdatasync(session, 0).error() == EINVAL && ftruncate(session, 0, 0).error() == EINVAL);

    // No stream, or one that is closed; by every call.
    gpufs::File *const streams[] = {nullptr, closed};
    for (gpufs::File *stream : streams) {
        EXPECT(fprintf(stream, "%d", 1).error() == EBADF && gpufs_fprintf(stream, "%d", 1).error() == EBADF);
        EXPECT(fwrite("x", 1, 1, stream).error() == EBADF && fread(text, 1, 1, stream).error() == EBADF);
        EXPECT(!fgets(text, 4, stream) && fgets(text, 4, stream).error() == EBADF);
        EXPECT(fputs("x", stream).error() == EBADF && fputc('x', stream).error() == EBADF);
        EXPECT(fgetc(stream).error() == EBADF && ungetc('x', stream).error() == EBADF);
        EXPECT(fseek(stream, 0, GPUFS_SEEK_SET).error() == EBADF && ftell(stream).error() == EBADF);
        EXPECT(setvbuf(stream, nullptr, GPUFS_IOFBF, 0).error() == EBADF);
        EXPECT(feof(stream).error() == EBADF && ferror(stream).error() == EBADF);
        EXPECT(fflush(stream).error() == EBADF && fclose(stream).error() == EBADF);
        rewind(stream);
        clearerr(stream);
    }

    // Formats that do not end, do not fit, or are none.
    EXPECT(fprintf(out, endless).error() == EINVAL && printf(fs, endless).error() == EINVAL);
    EXPECT(gpufs::snprintf(text, sizeof text, endless).error() == EINVAL);
    EXPECT(gpufs_fprintf_arguments(out, endless, SIZE_MAX, nullptr, 0).error() == EINVAL);
    const char *no_format = nullptr;
    EXPECT(fprintf(out, no_format, 1).error() == EINVAL && printf(fs, no_format).error() == EINVAL);
    EXPECT(gpufs::snprintf(text, sizeof text, no_format).error() == EINVAL);
    const char *const formats[] = {"%", "%d %", "%y", "%n", "%ls", "%2$d", "%1$d%d", "%m%y", "%w9d", "%s", "%d %d", "%hf", "%.*d"};
    for (const char *format : formats) {
        EXPECT(fprintf(out, format, 7).error() == EINVAL);
    }
    const gpufs_argument unknown = {11, 0, 0};
    EXPECT(gpufs_fprintf_arguments(out, "%d", 2, &unknown, 1).error() == EINVAL);
    EXPECT(gpufs_fprintf_arguments(out, "%d", 2, nullptr, 1).error() == EINVAL);
#if defined(__cpp_consteval)
    char unended[4] = {'a', 'b', 'c', 'd'};
    EXPECT(fprintf(out, unended).error() == EINVAL);
#endif

    // No memory, no string.
    EXPECT(fwrite(nullptr, 1, 5, out).error() == EFAULT && fread(nullptr, 1, 5, out).error() == EFAULT);
    EXPECT(fwrite("x", SIZE_MAX, 2, out).error() == EINVAL && fgets(nullptr, 5, out).error() == EFAULT);
    EXPECT(fputs(nullptr, out).error() == EFAULT && puts(fs, nullptr).error() == EFAULT);
    EXPECT(gpufs::snprintf(nullptr, 5, "%d", 1).error() == EFAULT);
    EXPECT(fopen(fs, nullptr, "r").error() == EFAULT && fopen(fs, "x", nullptr).error() == EFAULT);
    EXPECT(fopen(fs, endless, "r").error() == ENAMETOOLONG && open(fs, endless, GPUFS_O_RDONLY).error() == ENAMETOOLONG);
    EXPECT(fopen(fs, "x", endless).error() == EINVAL && open(fs, nullptr, GPUFS_O_RDONLY).error() == EFAULT);
    EXPECT(read(fs, 0, nullptr, 1).error() == EFAULT && write(fs, 1, nullptr, 1).error() == EFAULT);
    EXPECT(pread(fs, 0, nullptr, 1, 0).error() == EFAULT && pwrite(fs, 1, nullptr, 1, 0).error() == EFAULT);
    EXPECT(pread(fs, 0, text, 1, -1).error() == EINVAL && write(fs, 1 << 20, text, 1).error() == EBADF);

    // What is right still works, and nothing else was printed.
    EXPECT(fprintf(out, "%s\n", "right") == 6);
}

// A kernel that the host launched without gpufs_host_begin; `early` is a stream that it has opened.
__global__ void not_begun(gpufs::Session session, gpufs::File *early, Notes *notes) {
    auto file = fopen(session, "/dev/null", "w");
    EXPECT(!file && file.error() == EINVAL && fprintf(file, "%d", 1).error() == EBADF);
    EXPECT(fprintf(early, "%d", 1).error() == EBADF && fclose(early).error() == EBADF);
}

// Threads that fail in different ways beside threads that succeed: each gets its own error.
__global__ void grid(gpufs::Session fs, gpufs::File *file, const char *missing, int rounds, Notes *notes) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    for (int round = 0; round < rounds; ++round) {
        if (thread % 3 == 0) {
            auto printed = fprintf(static_cast<gpufs::File *>(nullptr), "%d", 1);
            EXPECT(printed == -1 && printed.error() == EBADF);
        } else if (thread % 1536 == 1 && round == 0) {
            auto none = fopen(fs, missing, "r");
            EXPECT(!none && none.error() == ENOENT);
        }
        EXPECT(fprintf(file, "thread %6u round %3d value %.3f\n", thread, round, thread / 8.0) > 30);
    }
}

int failed(const char *what) {
    std::printf("FAILED: %s: %s\n", what, gpufs_last_error());
    return 1;
}

// Threads look at a mapped file in order and anywhere, pin a page, and add to numbers of another.
__global__ void arrays(gpufs::Session fs, gpufs_mapping numbers, gpufs_mapping sums, uint64_t count, Notes *notes) {
    gpufs::view<unsigned long long> v(fs, numbers), s(fs, sums);
    const uint64_t thread = gpufs_thread();
    for (uint64_t at = thread; at < count; at += gpufs_threads()) {
        const auto found = v[at];
        EXPECT(found.error() == 0 && found.value() == at);
    }
    for (uint64_t round = 0; round < 16; ++round) {
        const uint64_t at = (thread * 7919 + round * 104729) % count;
        EXPECT(v[at].value() == at);
    }
    {
        // Other threads may keep as many pages as may be kept.
        const auto page = v.pin(512, 512);
        EXPECT(page ? page[7] == 519 : page.error() == EBUSY);
    }
    EXPECT(v[count].error() == ENXIO && v.set(0, 1).error() == EACCES);
    EXPECT(s.add(0, 2).error() == 0 && s.set(thread + 1, thread) == 0 && s[thread + 1].value() == thread);
    if (thread == 0) EXPECT(s.flush() == 0);
}

// Makes two files, maps them and looks at them from kernels; whether all was as it should be.
bool files_as_arrays(gpufs_host *host, const std::string &directory, Notes *notes) {
    constexpr unsigned long long count = 200000, threads = 32 * 128;
    FILE *numbers = std::fopen((directory + "/gpufs_numbers").c_str(), "w+b");
    FILE *sums = std::fopen((directory + "/gpufs_sums").c_str(), "w+b");
    if (numbers == nullptr || sums == nullptr) return false;
    std::vector<unsigned long long> all(count);
    for (unsigned long long at = 0; at < count; ++at) all[at] = at;
    std::fwrite(all.data(), sizeof all[0], count, numbers);
    const std::vector<unsigned long long> zeros(threads + 1, 0);
    std::fwrite(zeros.data(), sizeof zeros[0], zeros.size(), sums);
    gpufs_mapping read = {0}, write = {0};
    if (std::fflush(numbers) != 0 || std::fflush(sums) != 0 ||
        gpufs_host_map(host, fileno(numbers), GPUFS_MAP_READ, &read) != 0 ||
        gpufs_host_map(host, fileno(sums), GPUFS_MAP_WRITE, &write) != 0 || gpufs_host_begin(host) != 0) {
        return false;
    }
    arrays<<<32, 128>>>(gpufs_host_session(host), read, write, count, notes);
    if (gpufs_host_synchronize(host) != 0 || gpufs_host_unmap(host, read) != 0 || gpufs_host_unmap(host, write) != 0) {
        return false;
    }
    std::vector<unsigned long long> found(threads + 1);
    std::rewind(sums);
    bool right = std::fread(found.data(), sizeof found[0], found.size(), sums) == found.size() && found[0] == 2 * threads;
    for (unsigned long long thread = 0; thread < threads; ++thread) right = right && found[thread + 1] == thread;
    return std::fclose(numbers) == 0 && std::fclose(sums) == 0 && right;
}

} // namespace

int main(int argc, char **argv) {
    const std::string directory = argc > 1 ? argv[1] : "/tmp";
    gpufs_options options = {};
    options.size = sizeof options;
    options.cache_bytes = 1 << 20;
    options.cache_page_bytes = 4096;
    gpufs_host *host = gpufs_host_open(GPUFS_CUDA, 0, &options);
    if (host == nullptr) return failed("opening a session");
    char description[256];
    gpufs_host_describe(host, description, sizeof description);
    std::printf("%s\n", description);

    Notes *notes = nullptr;
    char *paths = nullptr;
    if (cudaMallocManaged(&notes, sizeof *notes) != cudaSuccess || cudaMallocManaged(&paths, 8192) != cudaSuccess) return 1;
    std::memset(notes, 0, sizeof *notes);
    char *path = paths, *missing = paths + 4096;
    std::strcpy(path, (directory + "/gpufs_calls").c_str());
    std::strcpy(missing, (directory + "/gpufs_missing").c_str());

    // Before gpufs_host_begin there is no session for kernels: null, which they can tell.
    if (gpufs_host_session(host) != nullptr || errno != EINVAL) return failed("a session before gpufs_host_begin");
    gpufs_file *early = gpufs_host_fopen(host, "/dev/null", "w");
    if (early == nullptr) return failed("/dev/null");
    not_begun<<<2, 64>>>(gpufs_host_session(host), early, notes);
    if (cudaDeviceSynchronize() != cudaSuccess) return failed("a kernel before gpufs_host_begin");
    if (gpufs_host_fclose(host, early) != 0) return failed("closing /dev/null");

    if (gpufs_host_begin(host) != 0) return failed("begin");
    calls<<<1, 1>>>(gpufs_host_session(host), path, missing, notes);
    if (gpufs_host_fopen(host, path, "r") != nullptr || errno != EBUSY) return failed("the host opened beside a kernel");
    if (gpufs_host_synchronize(host) != 0) return failed("the calls");

    // Paths and metadata.
    char *own = nullptr;
    if (cudaMallocManaged(&own, 4096) != cudaSuccess) return 1;
    std::strcpy(own, directory.c_str());
    if (gpufs_host_begin(host) != 0) return failed("begin, for names");
    names<<<3, 96>>>(gpufs_host_session(host), own, missing, notes);
    if (gpufs_host_synchronize(host) != 0) return failed("the names");

    if (gpufs_host_begin(host) != 0) return failed("begin, for memory");
    in_memory<<<2, 48>>>(gpufs_host_session(host), notes);
    if (gpufs_host_synchronize(host) != 0) return failed("streams on memory");

    if (gpufs_host_session(host) != nullptr) return failed("a session after gpufs_host_synchronize");
    if (!files_as_arrays(host, directory, notes)) return failed("files as arrays");

    char *endless = nullptr;
    if (cudaMalloc(&endless, GPUFS_FORMAT_BYTES) != cudaSuccess || cudaMemset(endless, 'x', GPUFS_FORMAT_BYTES) != cudaSuccess) return 1;
    const std::string right = directory + "/gpufs_right";
    gpufs_file *closed = gpufs_host_fopen(host, path, "r");
    if (closed == nullptr || gpufs_host_fclose(host, closed) != 0) return failed("a stream to close");
    gpufs_file *out = gpufs_host_fopen(host, right.c_str(), "w");
    if (out == nullptr || gpufs_host_begin(host) != 0) return failed("opening for wrong use");
    wrong_use<<<2, 64>>>(gpufs_host_session(host), gpufs::Session(nullptr), out, closed, endless, notes);
    if (gpufs_host_synchronize(host) != 0 || gpufs_host_fclose(host, out) != 0) return failed("wrong use");
    if (cudaGetLastError() != cudaSuccess) return failed("wrong use broke the GPU's context");
    FILE *lines_of_right = std::fopen(right.c_str(), "r");
    char word[16];
    int words = 0;
    while (lines_of_right != nullptr && std::fgets(word, sizeof word, lines_of_right) != nullptr) {
        if (std::strcmp(word, "right\n") != 0 || ++words > 128) return failed("wrong use printed");
    }
    if (words != 128) return failed("what is right beside wrong use");

    constexpr int blocks = 132, threads = 1024, rounds = 20;
    const std::string shared = directory + "/gpufs_grid";
    gpufs_file *file = gpufs_host_fopen(host, shared.c_str(), "w");
    if (file == nullptr || gpufs_host_begin(host) != 0) return failed("opening for the grid");
    grid<<<blocks, threads>>>(gpufs_host_session(host), file, missing, rounds, notes);
    if (gpufs_host_synchronize(host) != 0 || gpufs_host_fclose(host, file) != 0) return failed("the grid");
    if (gpufs_host_fclose(host, file) == 0 || errno != EBADF) return failed("closing twice");

    // The kernel's own error comes with the synchronization.
    gpufs_file *full = gpufs_host_fopen(host, "/dev/full", "w");
    if (full == nullptr || gpufs_host_begin(host) != 0) return failed("/dev/full");
    grid<<<1, 1>>>(gpufs_host_session(host), full, missing, 1, notes);
    if (gpufs_host_synchronize(host) == 0 || errno != ENOSPC) return failed("a full disk went unnoticed");
    gpufs_host_fclose(host, full);

    gpufs_statistics statistics = {};
    statistics.size = sizeof statistics;
    gpufs_host_statistics(host, &statistics);
    std::printf("%llu operations, %llu bytes written, %llu stale\n", (unsigned long long)statistics.operations,
                (unsigned long long)statistics.bytes_written, (unsigned long long)statistics.stale);
    if (gpufs_host_close(host) != 0) return failed("closing");

    std::vector<int> next(blocks * threads, 0);
    FILE *lines = std::fopen(shared.c_str(), "r");
    char line[128];
    long count = 0;
    while (lines != nullptr && std::fgets(line, sizeof line, lines) != nullptr) {
        unsigned thread = 0;
        int round = 0;
        double value = 0;
        if (std::sscanf(line, "thread %u round %d value %lf\n", &thread, &round, &value) != 3 || thread >= next.size() ||
            round != next[thread]++ || value < thread / 8.0 - 1e-3 || value > thread / 8.0 + 1e-3) {
            std::printf("FAILED: line %ld: %s", count, line);
            return 1;
        }
        ++count;
    }
    if (count != static_cast<long>(blocks) * threads * rounds) {
        std::printf("FAILED: %ld lines\n", count);
        return 1;
    }
    for (unsigned long long index = 0; index < notes->failures && index < 16; ++index) {
        std::printf("FAILED: line %d\n", notes->line[index]);
    }
    std::printf("%ld lines whole and in order; %llu expectations failed\n", count, notes->failures);
    return notes->failures == 0 ? 0 : 1;
}
