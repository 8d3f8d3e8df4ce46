/* table.c on 64 CPU lanes. table.c alone is compiled under drop_in.h; this file prints through the C library.
 *
 *     cc -IDIR/include/gpufs/drop_in -IDIR/include -c table.c
 *     cc -IDIR/include lanes.c table.o -LDIR/lib -lgpufs -Wl,-rpath,DIR/lib -o tables
 */
#include <stdio.h>

#include <gpufs/host.h>

#include "table.h"

static void kernel(gpufs_session *session, void *failed) {
    int error = table((int)gpufs_thread() + 1);
    (void)session;
    if (error != 0) {
        *(int *)failed = error;
    }
}

int main(void) {
    int failed = 0;
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, NULL);
    if (host == NULL || gpufs_host_use(host) != 0 || gpufs_host_launch(host, 2, 32, kernel, &failed) != 0 ||
        gpufs_host_close(host) != 0) {
        fprintf(stderr, "%s\n", gpufs_last_error());
        return 1;
    }
    if (failed != 0) {
        fprintf(stderr, "a table is missing: error %d\n", failed);
    }
    return failed != 0;
}
