/* Plain C, which knows nothing of gpufs: writes a table to a file, and says so. */
#include "table.h"

#include <errno.h>
#include <stdio.h>

int table(int number) {
    char path[32];
    FILE *out;
    int factor;
    snprintf(path, sizeof path, "table-%d.txt", number);
    out = fopen(path, "w");
    if (out == NULL) {
        return errno;
    }
    for (factor = 1; factor <= 10; ++factor) {
        if (fprintf(out, "%d x %d = %d\n", number, factor, number * factor) < 0) {
            fclose(out);
            return errno;
        }
    }
    if (fclose(out) != 0 || printf("%s is written\n", path) < 0) {
        return errno;
    }
    return 0;
}
