/* The working directory, the mask of permissions, walks of a tree, users and groups. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int files, directories, deepest;
static long letters;

static int told(const char *path, const struct stat *about, int type, struct FTW *place) {
    files += type == FTW_F;
    directories += type == FTW_D || type == FTW_DP;
    deepest = place->level > deepest ? place->level : deepest;
    letters += (long)strlen(path + place->base);
    if (type == FTW_F && about->st_size != 5) {
        printf("%s has %ld bytes\n", path, (long)about->st_size);
    }
    /* By its name: this is its directory. */
    return type == FTW_F ? access(path + place->base, R_OK) : 0;
}

static int removed(const char *path, const struct stat *about, int type, struct FTW *place) {
    (void)about;
    (void)type;
    (void)place;
    return remove(path);
}

static void show(const char *path) {
    struct stat about;
    if (stat(path, &about) != 0) {
        printf("%s: %s\n", path, strerror(errno));
        return;
    }
    printf("%s: %o\n", path, (unsigned)about.st_mode & 0777);
}

/* Says what a call returned, and the error it may have met. */
static void say(const char *what, int result) {
    printf("%s %d", what, result);
    printf(result < 0 ? ": %s\n" : "\n", strerror(errno));
}

static const char *last_part(void) {
    static char path[4096];
    return getcwd(path, sizeof path) == NULL ? strerror(errno) : strrchr(path, '/') + 1;
}

int main(void) {
    char start[4096], again[4096], name[64];
    int folder, mask = (int)umask(027);
    printf("mask %03o\n", (unsigned)umask(027));
    if (getcwd(start, sizeof start) == NULL || mkdir("tree", 0777) != 0) {
        perror("tree");
        return 1;
    }
    show("tree");
    folder = open(".", O_RDONLY | O_DIRECTORY);
    say("chdir", chdir("tree"));
    puts(last_part());
    for (int at = 0; at < 6; ++at) {
        FILE *file;
        snprintf(name, sizeof name, "part%d", at / 3);
        if (at % 3 == 0 && mkdir(name, 0755) != 0) {
            perror(name);
        }
        snprintf(name, sizeof name, "part%d/file%d", at / 3, at);
        file = fopen(name, "w");
        if (file == NULL || fputs("text\n", file) == EOF || fclose(file) != 0) {
            perror(name);
        }
    }
    show("part1");
    show("part1/file4");
    close(open("open", O_CREAT | O_WRONLY, 0666));
    show("open");
    umask(0);
    close(creat("all", 0666));
    show("all");
    umask(0777);
    close(creat("none", 0666));
    show("none");
    umask((mode_t)mask);
    printf("unlink %d %d %d\n", unlink("open"), unlink("all"), unlink("none"));
    say("chdir", chdir("part0"));
    puts(last_part());
    show("file1");
    show("../part1/file5");
    say("chdir", chdir("nowhere"));
    say("chdir", chdir("file0"));
    say("fchdir", fchdir(77));
    puts(last_part());
    say("fchdir", fchdir(folder));
    say("access", access("tree/part0/file0", R_OK));
    printf("%d %d\n", getcwd(name, 2) == NULL, strcmp(getcwd(again, sizeof again), start));
    say("nftw", nftw("tree", told, 4, FTW_CHDIR | FTW_PHYS));
    printf("%d files, %d directories, %d levels, %ld letters\n", files, directories, deepest, letters);
    say("nftw", nftw("tree/part1", told, 1, FTW_DEPTH | FTW_CHDIR));
    say("access", access("tree", R_OK));
    say("nftw", nftw("nowhere", told, 4, 0));
    say("nftw", nftw("tree", removed, 4, FTW_DEPTH | FTW_PHYS));
    say("access", access("tree", F_OK));
    close(folder);
    struct passwd *user = getpwuid(0);
    struct group *group = getgrgid(0);
    printf("%s %s %u\n", user ? user->pw_name : "none", user ? user->pw_dir : "none", user ? (unsigned)user->pw_gid : 1);
    printf("%s %d\n", group ? group->gr_name : "none", getgrnam("no such group") == NULL);
    user = getpwnam("daemon");
    printf("%s\n", user ? user->pw_shell : "none");
    return 0;
}
