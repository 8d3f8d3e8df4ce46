/* A source that knows nothing of gpufs: two writes in flight, then both read back as a list. */
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static struct aiocb block_of(int file, void *memory, long offset) {
    struct aiocb block = {0};
    block.aio_fildes = file;
    block.aio_buf = memory;
    block.aio_nbytes = 4;
    block.aio_offset = offset;
    block.aio_lio_opcode = LIO_READ;
    return block;
}

/* 0, or the number of the line that failed. */
int plain(int number) {
    char text[2][5] = {"abcd", "efgh"}, path[] = "aio-0", found[2][5] = {"", ""};
    struct timespec minute = {60, 0};
    int file, index;
    path[4] = (char)('0' + number);
    file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0) {
        return errno;
    }
    {
        struct aiocb first = block_of(file, text[0], 0), second = block_of(file, text[1], 4);
        const struct aiocb *const both[2] = {&first, &second};
        int error = 0;
        if (aio_write(&first) != 0 || aio_write(&second) != 0) {
            return errno;
        }
        for (index = 0; index < 2; ++index) {
            if (aio_suspend(&both[index], 1, &minute) != 0) {
                return errno;
            }
            while ((error = aio_error(both[index])) == EINPROGRESS) {
            }
            if (error != 0) {
                return error;
            }
        }
        if (aio_return(&first) != 4 || aio_return(&second) != 4 || aio_return(&second) != -1 || errno != EINVAL) {
            return __LINE__;
        }
        if (aio_fsync(O_RDWR, &first) != -1 || aio_cancel(file, &first) != -1) {
            return __LINE__;
        }
    }
    {
        struct aiocb first = block_of(file, found[0], 4), second = block_of(file, found[1], 0);
        struct aiocb *const both[2] = {&first, &second};
        if (lio_listio(LIO_WAIT, both, 2, 0) != 0) {
            return errno;
        }
        if (aio_return(&first) != 4 || aio_return(&second) != 4) {
            return __LINE__;
        }
    }
    if (found[0][0] != 'e' || found[1][3] != 'd') {
        return __LINE__;
    }
    return close(file) == 0 ? 0 : errno;
}
