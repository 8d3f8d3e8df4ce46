/* A source that knows nothing of gpufs. Each thread of drop_in/main.c calls plain(). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

int plain(int number);

static int close_all(int one, int two, int three) { return close(one) | close(two) | close(three); }

/* Members and parameters with names of the C library. */
struct operations {
    int (*putc)(int, FILE *);
    int (*close)(FILE *);
};

int plain(int number) {
    static const struct operations operations = {.putc = fputc, .close = fclose};
    char name[] = "plain-?.txt", line[64];
    FILE *file;
    fpos_t second;
    int remove = 0;
    double value = 0;
    name[6] = (char)('a' + number);
    if ((file = fopen(name, "w+")) == NULL) {
        return errno;
    }
    if (operations.putc('1', file) != '1' || fputs("\nsecond\n", file) < 0 || fflush(file) != 0) {
        return __LINE__;
    }
    rewind(file);
    if (fgets(line, sizeof line, file) != line || strcmp(line, "1\n") != 0 || fgetpos(file, &second) != 0) {
        return __LINE__;
    }
    if (getc(file) != 's' || ungetc('s', file) != 's' || fread(line, 1, 7, file) != 7 || memcmp(line, "second\n", 7)) {
        return __LINE__;
    }
    if (getc(file) != EOF || !feof(file) || ferror(file)) {
        return __LINE__;
    }
    if (fsetpos(file, &second) != 0 || getc(file) != 's' || ftell(file) != 3) {
        return __LINE__;
    }
    if (operations.close(file) != 0) {
        return __LINE__;
    }
    /* Each lane has its own errno, while others run. */
    errno = number + 1000;
    if ((file = fopen(name, "r")) == NULL || fclose(file) != 0 || errno != number + 1000) {
        return __LINE__;
    }
    errno = 0;
    if (fopen("not/there", "r") != NULL || errno != ENOENT) {
        return __LINE__;
    }
    {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = 0, .l_start = 1, .l_len = 2};
        int descriptor = open(name, O_RDWR), copy = fcntl(descriptor, F_DUPFD, 3), other = open(name, O_RDWR);
        if (descriptor < 3 || copy < 3 || copy == descriptor || fcntl(copy, F_GETFD) != FD_CLOEXEC) {
            return __LINE__;
        }
        if (fcntl(descriptor, F_SETLK, &lock) != 0 || fcntl(other, F_SETLK, &lock) != -1 || errno != EAGAIN) {
            return __LINE__;
        }
        if (fcntl(other, F_GETLK, &lock) != 0 || lock.l_type != F_WRLCK || lock.l_start != 1 || lock.l_len != 2) {
            return __LINE__;
        }
        if ((fcntl(descriptor, F_GETFL) & O_ACCMODE) != O_RDWR || fcntl(copy, F_DUPFD, 100000) != -1 || errno != EINVAL) {
            return __LINE__;
        }
        if (close_all(descriptor, copy, other) != 0 || fcntl(copy, F_GETFD) != -1 || errno != EBADF) {
            return __LINE__;
        }
    }
    {
        int ends[2], counter = eventfd(3, EFD_CLOEXEC), after;
        eventfd_t count = 0;
        if (counter < 3 || eventfd_write(counter, 4) != 0 || eventfd_read(counter, &count) != 0 || count != 7) {
            return __LINE__;
        }
        if (pipe(ends) != 0 || write(ends[1], "x", 1) != 1 || read(ends[0], line, 2) != 1 || line[0] != 'x') {
            return __LINE__;
        }
        if (eventfd(0, 2) != -1 || errno != EINVAL) {
            return __LINE__;
        }
        after = close_all(ends[0], ends[1], counter);
        if (after != 0 || eventfd_write(counter, 1) != -1 || errno != EBADF) {
            return __LINE__;
        }
    }
    errno = 0;
    if (fputc('x', stdin) != EOF || errno != EBADF) {
        return __LINE__;
    }
    if (snprintf(line, sizeof line, "%-4d|%5.2f|%s|%c|%lu|%*ld%%", number, 2.5, name, 'x', 7ul, 4, -3l) != 32 ||
        sprintf(line + 40, "%#x", 255u) != 4 || strcmp(line + 40, "0xff") != 0 ||
        strncmp(line + 4, "| 2.50|plain-", 13) != 0 || strcmp(line + 22, "|x|7|  -3%") != 0) {
        return __LINE__;
    }
    if (sscanf("12 3.5 word", "%d %lf %31s", &remove, &value, line) != 3 || remove != 12 || value != 3.5 ||
        strcmp(line, "word") != 0) {
        return __LINE__;
    }
    remove = 0;
    if (fprintf(stdout, "%s", "") != 0 || printf("%.1Lf\n", 1.5L) != 4) {
        return __LINE__;
    }
    return puts("plain") < 0 || fputs("", stderr) < 0 ? __LINE__ : remove;
}
