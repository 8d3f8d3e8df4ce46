/* Bulk transfers, right use and wrong, with memory of the host. Runs in a scratch directory. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include <gpufs/transfer.h>

enum { BYTES = 3000001, ROW = 100, ROWS = 5000 };
static unsigned char content[BYTES], found[BYTES + 10];

static unsigned char at(size_t place) {
    return (unsigned char)(place * 2654435761U >> 13);
}

int main(void) {
    for (size_t place = 0; place < BYTES; place++) content[place] = at(place);
    int file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(file >= 0);

    /* A host counts, no host is fine; sizes are chosen before. */
    CHECK_FAILS(gpufs_transfer_configure(257, 0, 0), -1, EINVAL);
    CHECK(strstr(gpufs_last_error(), "threads is 257") != NULL);
    CHECK(gpufs_transfer_configure(2, 65536, 2) == 0);
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, NULL);
    CHECK(host != NULL);
    CHECK(gpufs_host_write_from(NULL, content, BYTES, file, 0) == BYTES);
    CHECK_FAILS(gpufs_transfer_configure(3, 65536, 2), -1, EBUSY);
    CHECK(gpufs_host_read_into(host, found, BYTES + 10, file, 0) == BYTES);
    CHECK(memcmp(found, content, BYTES) == 0);
    CHECK(gpufs_host_read_into(host, found, 10, file, BYTES + 100) == 0);
    gpufs_transfer_count counts[12], all[12];
    CHECK(gpufs_transfer_statistics(host, counts) == 0 && gpufs_transfer_statistics(NULL, all) == 0);
    const int in_place = 3 * (GPUFS_MEMORY_PAGEABLE - 1) + GPUFS_WAY_IN_PLACE;
    CHECK(counts[in_place].bytes_read == BYTES && counts[in_place].bytes_written == 0 && counts[in_place].writes == 0);
    CHECK(all[in_place].bytes_written == BYTES && all[in_place].writes >= BYTES / 65536);
    CHECK(counts[3 * (GPUFS_MEMORY_DEVICE - 1) + GPUFS_WAY_STAGED].reads == 0);
    CHECK(gpufs_memory_kind(found) == GPUFS_MEMORY_PAGEABLE);

    /* Many parts, one of them of rows, in the background. */
    static uint64_t offsets[ROWS];
    for (int row = 0; row < ROWS; row++) offsets[row] = (uint64_t)(row * 7919 % (BYTES / ROW)) * ROW;
    static unsigned char rows[ROW * ROWS];
    gpufs_part parts[3];
    memset(parts, 0, sizeof parts);
    memset(found, 0, sizeof found);
    for (int part = 0; part < 3; part++) parts[part].descriptor = file;
    parts[0].memory = found, parts[0].bytes = 1000000, parts[0].offset = 5;
    parts[1].memory = rows, parts[1].bytes = sizeof rows, parts[1].row_bytes = ROW, parts[1].row_offsets = offsets;
    parts[2].memory = found + 1000000, parts[2].bytes = 100, parts[2].offset = BYTES - 10, parts[2].memory_kind = GPUFS_MEMORY_PAGEABLE;
    gpufs_transfer_options options = {sizeof options, NULL, 0, 0};
    gpufs_transfer *transfer = gpufs_host_start_read(host, parts, 3, &options);
    CHECK(transfer != NULL);
    uint64_t done = 0, total = 0, each[3];
    size_t failed = 9;
    while (gpufs_transfer_poll(transfer, 1000, &done, &total) == 0) {}
    CHECK(done == 1000000 + sizeof rows + 10 && total == 1000000 + sizeof rows + 100);
    CHECK(gpufs_transfer_wait(transfer, each, &failed) == (int64_t)done && failed == 9);
    CHECK(each[0] == 1000000 && each[1] == sizeof rows && each[2] == 10);
    CHECK(memcmp(found, content + 5, 1000000) == 0 && memcmp(found + 1000000, content + BYTES - 10, 10) == 0);
    for (int row = 0; row < ROWS; row++) CHECK(memcmp(rows + row * ROW, content + offsets[row], ROW) == 0);

    /* What fails says so, and which part. */
    int full = open("/dev/full", O_WRONLY);
    parts[1].descriptor = full;
    transfer = gpufs_host_start_write(NULL, parts, 2, NULL);
    CHECK(transfer != NULL);
    CHECK(gpufs_transfer_poll(transfer, UINT64_MAX, NULL, NULL) == 1);
    CHECK_FAILS(gpufs_transfer_wait(transfer, NULL, &failed), -1, ENOSPC);
    CHECK(failed == 1 && strstr(gpufs_last_error(), "part 1") != NULL);
    offsets[3] = BYTES - 1;
    parts[1].descriptor = file;
    transfer = gpufs_host_start_read(NULL, parts, 2, NULL);
    CHECK_FAILS(gpufs_transfer_wait(transfer, each, &failed), -1, ENODATA);
    parts[1].row_bytes = 99;
    CHECK_FAILS(gpufs_host_start_read(NULL, parts, 2, NULL), NULL, EINVAL);
    parts[1].row_bytes = ROW, parts[1].row_offsets = NULL;
    CHECK_FAILS(gpufs_host_start_read(NULL, parts, 2, NULL), NULL, EINVAL);
    parts[0].memory_kind = 5;
    CHECK_FAILS(gpufs_host_start_read(NULL, parts, 1, NULL), NULL, EINVAL);
    CHECK(strstr(gpufs_last_error(), "memory_kind 5") != NULL);
    parts[0].memory_kind = GPUFS_MEMORY_DEVICE;
    CHECK_FAILS(gpufs_host_start_read(NULL, parts, 1, NULL), NULL, EINVAL);
    parts[0].descriptor = -1;
    CHECK_FAILS(gpufs_host_start_read(NULL, parts, 1, NULL), NULL, EBADF);
    options.size = 8;
    CHECK_FAILS(gpufs_host_start_read(NULL, parts, 0, &options), NULL, EINVAL);
    CHECK_FAILS(gpufs_host_start_read(NULL, NULL, 1, NULL), NULL, EINVAL);
    CHECK_FAILS(gpufs_host_read_into(NULL, found, 1, 9999, 0), -1, EBADF);
    CHECK_FAILS(gpufs_host_write_from(NULL, found, 1, -1, 0), -1, EBADF);
    CHECK_FAILS(gpufs_transfer_poll(NULL, 0, NULL, NULL), -1, EINVAL);
    CHECK_FAILS(gpufs_transfer_wait(NULL, NULL, NULL), -1, EINVAL);
    CHECK_FAILS(gpufs_transfer_statistics(NULL, NULL), -1, EINVAL);
    transfer = gpufs_host_start_read(NULL, NULL, 0, NULL);
    CHECK(transfer != NULL && gpufs_transfer_wait(transfer, NULL, NULL) == 0);
    CHECK(gpufs_host_close(host) == 0 && close(file) == 0 && close(full) == 0);
    puts("all transfers are as they should be");
    return 0;
}
