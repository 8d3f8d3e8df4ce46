// Standard names in a CUDA file: gpufs's in the kernel, the C library's on the host. Includes of both kinds, in the order of a plain source.
#include <dirent.h>
#include <errno.h>
#include <stdio.h>

#include <gpufs/use.h>

__device__ int failed;

__device__ int work(int number) {
    char path[32], line[32];
    snprintf(path, sizeof path, "split-%d.txt", number);
    FILE *file = fopen(path, "w+");
    if (file == NULL) {
        return errno;
    }
    if (fprintf(file, "%s %.1f\n", "line", 2.5) != 9 || fseek(file, 0, SEEK_SET) != 0 ||
        fgets(line, sizeof line, file) != line || getc(file) != EOF || !feof(file)) {
        return -1;
    }
    int scanned = 0;
    if (fseek(file, 0, SEEK_SET) != 0 || fscanf(file, "line %d", &scanned) != 1 || scanned != 2 ||
        sscanf("7", "%d", &scanned) != 1 || scanned != 7) {
        return -3;
    }
    errno = 0;
    if (fopen("not/there", "r") != NULL || errno != ENOENT) {
        return -2;
    }
    if (fclose(file) != 0 || printf("%d\n", number) < 0) {
        return errno;
    }
    fputs("", stderr);
    // What was made is in the directory, once.
    DIR *folder = opendir(".");
    if (folder == NULL) {
        return errno;
    }
    int found = 0;
    while (struct dirent *entry = readdir(folder)) {
        int at = 0;
        while (path[at] != 0 && path[at] == entry->d_name[at]) {
            ++at;
        }
        found += path[at] == entry->d_name[at];
    }
    rewinddir(folder);
    if (found != 1 || readdir(folder) == NULL) {
        return -4;
    }
    return closedir(folder) == 0 ? 0 : errno;
}

__global__ void kernel() {
    int error = work(static_cast<int>(threadIdx.x));
    if (error != 0) {
        failed = error;
    }
}

int main() {
    // The C library's: no session is open.
    FILE *file = fopen("split-host.txt", "w");
    if (file == NULL || fprintf(file, "%d\n", 1) != 2 || fclose(file) != 0) {
        perror("split-host.txt");
        return 1;
    }
    gpufs_host *host = gpufs_host_open(GPUFS_CUDA, 0, nullptr);
    if (host == nullptr || gpufs_host_begin(host) != 0 || gpufs_host_use(host) != 0) {
        fprintf(stderr, "%s\n", gpufs_last_error());
        return 1;
    }
    DIR *own = opendir(".");
    if (own == NULL || readdir(own) == NULL || closedir(own) != 0) {
        perror(".");
        return 1;
    }
    kernel<<<1, 32>>>();
    int error = cudaGetLastError();
    if (gpufs_host_close(host) != 0) {
        fprintf(stderr, "%s\n", gpufs_last_error());
        return 1;
    }
    if (error == cudaSuccess && cudaMemcpyFromSymbol(&error, failed, sizeof error) == cudaSuccess && error != 0) {
        fprintf(stderr, "a thread met error %d\n", error);
    }
    return error != 0;
}
