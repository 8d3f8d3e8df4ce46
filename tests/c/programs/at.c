/* Paths relative to a directory's descriptor, places in a directory, and what is asked about descriptors. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Prints a call, its result, and the error where there is one. */
#define SAY(call)                                                                       \
    do {                                                                                \
        long result;                                                                    \
        errno = 0;                                                                      \
        result = (long)(call);                                                          \
        printf("%s: %ld %s\n", #call, result, result == -1 ? strerror(errno) : "");     \
    } while (0)

static void on_paths(int folder) {
    struct stat about;
    char target[8] = "";
    int file = openat(folder, "file", O_CREAT | O_WRONLY, 0640);
    SAY(write(file, "x", 1));
    SAY(close(file));
    SAY(mkdirat(folder, "inner", 0755));
    SAY(symlinkat("file", folder, "link"));
    SAY(readlinkat(folder, "link", target, sizeof target - 1));
    puts(target);
    SAY(readlinkat(folder, "file", target, sizeof target));
    SAY(readlinkat(folder, "none", target, sizeof target));
    SAY(readlinkat(99, "link", target, sizeof target));
    SAY(fchmodat(folder, "file", 0600, 0));
    SAY(fstatat(folder, "file", &about, 0));
    printf("%o, %ld bytes\n", (unsigned)about.st_mode & 0777, (long)about.st_size);
    SAY(fchmodat(folder, "none", 0600, 0));
    SAY(fchmodat(99, "file", 0600, 0));
    SAY(fstatat(folder, "link", &about, AT_SYMLINK_NOFOLLOW));
    printf("a link: %d\n", S_ISLNK(about.st_mode) != 0);
    SAY(renameat(folder, "file", folder, "other"));
    SAY(linkat(folder, "other", folder, "second", 0));
    SAY(unlinkat(folder, "inner", AT_REMOVEDIR));
    SAY(unlinkat(folder, "inner", 0));
}

static void on_places(DIR *folder) {
    char names[8][256];
    long places[8];
    int count = 0;
    struct dirent *entry;
    while (count < 8) {
        places[count] = telldir(folder);
        entry = readdir(folder);
        if (entry == NULL) {
            break;
        }
        strcpy(names[count++], entry->d_name);
    }
    printf("%d entries, and then the end: %d\n", count, readdir(folder) == NULL);
    while (count-- > 0) {
        seekdir(folder, places[count]);
        entry = readdir(folder);
        printf("back at %d: %d\n", count, entry != NULL && strcmp(entry->d_name, names[count]) == 0);
    }
    SAY(unlinkat(dirfd(folder), "second", 0));
    rewinddir(folder);
    for (count = 0; readdir(folder) != NULL; ++count) {
    }
    printf("%d entries after one was removed\n", count);
}

static void on_descriptors(void) {
    int number = open("plain", O_CREAT | O_RDWR | O_APPEND, 0600), again;
    SAY(fcntl(number, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK));
    SAY(isatty(number));
    printf("%s\n", strerror(errno));
    SAY(isatty(99));
    printf("%s\n", strerror(errno));
    again = open("plain", O_WRONLY);
    SAY(fcntl(again, F_GETFL) & (O_ACCMODE | O_APPEND));
    SAY(close(again));
    SAY(fcntl(again, F_GETFL));
    SAY(close(number));
    SAY(unlink("plain"));
}

int main(void) {
    DIR *folder;
    SAY(mkdir("tree", 0755));
    folder = opendir("tree");
    if (folder == NULL) {
        perror("tree");
        return 1;
    }
    on_paths(dirfd(folder));
    rewinddir(folder);
    on_places(folder);
    on_descriptors();
    SAY(unlink("tree/link"));
    SAY(unlink("tree/other"));
    SAY(closedir(folder));
    SAY(rmdir("tree"));
    return 0;
}
