// The printf family in C++: templates, functions and lists, on CPU lanes, in a scratch directory.
#include "check.h"

#include <cstdarg>
#include <cstring>
#include <cwchar>

#include <gpufs/file.h>
#include <gpufs/host.h>
#include <gpufs/stdio.h>

namespace {

gpufs::Result<int> listed(char *into, const char *format, ...) {
    va_list list;
    va_start(list, format);
    auto result = gpufs::vsnprintf(into, 64, format, list);
    va_end(list);
    return result;
}

gpufs::Result<int> to_stream(gpufs::File *out, const char *format, ...) {
    va_list list;
    va_start(list, format);
    auto result = vfprintf(out, format, list);
    va_end(list);
    return result;
}

void kernel(gpufs_session *tables, void *) {
    gpufs::Session fs = tables;
    char text[64];
    char *memory = nullptr;
    int place = -1;
    CHECK(gpufs::sprintf(text, "%2$s %1$d", 1, "one") == 5 && std::strcmp(text, "one 1") == 0);
    CHECK(gpufs::asprintf(&memory, "%ls%n|", L"wide", &place) == 5 && std::strcmp(memory, "wide|") == 0 && place == 4);
    GPUFS_FREE(memory);
    CHECK(listed(text, "%1$s %2$5.1f", "list", 2.5) == 10 && std::strcmp(text, "list   2.5") == 0);
    CHECK(listed(text, "%lc", 0xd800).error() == EILSEQ && listed(text, "%1$d%d", 1, 2).error() == EINVAL);
    gpufs::Result<int> (*function)(char *, std::size_t, const char *, ...) = gpufs_snprintf;
    CHECK(function(text, sizeof text, "%d", 17) == 2 && std::strcmp(text, "17") == 0);
    auto out = fopen(fs, "printed", "w+");
    CHECK(out && to_stream(out, "%s %d\n", "stream", 1) == 9 && fclose(out) == 0);
    const int descriptor = open(fs, "printed", GPUFS_O_WRONLY | GPUFS_O_APPEND);
    CHECK(dprintf(fs, descriptor, "%d\n", 2) == 2 && gpufs_dprintf(fs, descriptor, "%d\n", 3) == 2 && close(fs, descriptor) == 0);
    CHECK(std::strcmp(gpufs_strerror(dprintf(fs, -1, "x").error()), "Bad file descriptor") == 0);
}

} // namespace

int main() {
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, nullptr);
    CHECK(host != nullptr && gpufs_host_launch(host, 1, 1, kernel, nullptr) == 0);
    CHECK(gpufs_host_close(host) == 0);
    char text[64];
    CHECK(slurp("printed", text, sizeof text) == 13 && std::strcmp(text, "stream 1\n2\n3\n") == 0);
    return 0;
}
