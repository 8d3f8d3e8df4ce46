/* Standard streams that the process was started without: what each call says is left in a file. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    int in, out, err;
    long written;
    char byte;
    FILE *log;
    errno = 0;
    in = getchar();
    int in_errno = errno;
    errno = 0;
    long taken = read(0, &byte, 1);
    int read_errno = errno;
    errno = 0;
    /* Either may say it. */
    out = puts("out") < 0;
    out |= fflush(stdout) < 0;
    int out_errno = errno;
    errno = 0;
    err = fputs("err\n", stderr);
    int err_errno = errno;
    errno = 0;
    written = write(1, "byte", 4);
    int write_errno = errno;
    log = fopen("closed.txt", "w");
    fprintf(log, "%d %s, %ld %s\n", in, strerror(in_errno), taken, strerror(read_errno));
    fprintf(log, "%d %s, %d %s, %ld %s\n", out, strerror(out_errno), err < 0, strerror(err_errno), written,
            strerror(write_errno));
    return fclose(log);
}
