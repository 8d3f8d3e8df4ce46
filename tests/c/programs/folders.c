/* Folders by path and by descriptor: made, walked as `du` and `rm -r` walk them, and removed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int failures;

static void failed(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    ++failures;
}

/* Entries of a folder that is open, and of those in it; removes them if `removes`. */
static int walked(int folder, int removes) {
    struct dirent *entry;
    int count = 0;
    DIR *open_folder = fdopendir(folder);
    if (open_folder == NULL) {
        failed("fdopendir");
        return 0;
    }
    if (dirfd(open_folder) != folder) {
        puts("dirfd: another descriptor");
        ++failures;
    }
    while ((entry = readdir(open_folder)) != NULL) {
        struct stat about;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        ++count;
        if (fstatat(folder, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0) {
            failed(entry->d_name);
        } else if (S_ISDIR(about.st_mode)) {
            int inner = openat(folder, entry->d_name, O_RDONLY | O_DIRECTORY);
            if (inner < 0) {
                failed(entry->d_name);
                continue;
            }
            count += walked(inner, removes);
        }
        if (removes && unlinkat(folder, entry->d_name, S_ISDIR(about.st_mode) ? AT_REMOVEDIR : 0) != 0) {
            failed("unlinkat");
        }
    }
    if (closedir(open_folder) != 0) {
        failed("closedir");
    }
    if (close(folder) != -1 || errno != EBADF) {
        failed("closedir leaves the descriptor open");
    }
    printf("%d\n", count);
    return count;
}

int main(void) {
    static const char *const folders[] = {"made", "made/one", "made/one/two", "made/three"};
    char path[64];
    FILE *file;
    size_t at;
    for (at = 0; at < sizeof folders / sizeof *folders; ++at) {
        int number;
        if (mkdir(folders[at], 0755) != 0) {
            failed(folders[at]);
        }
        for (number = 0; number < 5; ++number) {
            snprintf(path, sizeof path, "%s/file%d", folders[at], number);
            file = fopen(path, "w");
            if (file == NULL || fprintf(file, "%d\n", number) != 2 || fclose(file) != 0) {
                failed(path);
            }
        }
    }
    printf("%d entries\n", walked(open("made", O_RDONLY | O_DIRECTORY), 0));
    printf("%d removed\n", walked(open("made", O_RDONLY | O_DIRECTORY), 1));
    printf("rmdir: %d\n", rmdir("made"));
    printf("fdopendir: %s", fdopendir(99) == NULL ? strerror(errno) : "?");
    file = fopen("plain", "w");
    printf(", %s\n", fdopendir(fileno(file)) == NULL ? strerror(errno) : "?");
    printf("%d, %s\n", fclose(file), unlink("plain") == 0 ? "gone" : strerror(errno));
    return failures;
}
