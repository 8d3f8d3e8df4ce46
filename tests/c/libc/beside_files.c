/* <ftw.h>, <pwd.h> and <grp.h> of gpufs-libc beside the C library's: tests/c/libc/beside.c calls these when it has made a tree. */
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

int ours_ftw(const char *, int (*)(const char *, const struct stat *, int), int);
int ours_nftw(const char *, int (*)(const char *, const struct stat *, int, struct FTW *), int, int);
struct passwd *ours_getpwnam(const char *), *ours_getpwuid(uid_t), *ours_getpwent(void);
struct group *ours_getgrnam(const char *), *ours_getgrgid(gid_t), *ours_getgrent(void);
void ours_endpwent(void), ours_endgrent(void);

static int failures;
#define CHECK(condition, ...)                                              \
    do {                                                                   \
        if (!(condition)) {                                                \
            printf("%s:%d: %s: ", __FILE__, __LINE__, #condition);         \
            printf(__VA_ARGS__);                                           \
            puts("");                                                      \
            ++failures;                                                    \
        }                                                                  \
    } while (0)

static char said[1 << 17];
static size_t length;
static int calls, last_call, last_result;

static int answer(void) { return ++calls == last_call ? last_result : 0; }
static int plainly(const char *path, const struct stat *about, int type) {
    length += (size_t)sprintf(said + length, "%s %d %lu\n", path, type, type == FTW_NS ? 0 : (unsigned long)about->st_ino);
    return answer();
}
static int told(const char *path, const struct stat *about, int type, struct FTW *place) {
    char here[4096];
    length += (size_t)sprintf(said + length, "%s %d %lu %d %d %s\n", path, type, type == FTW_NS ? 0 : (unsigned long)about->st_ino,
                              place->base, place->level, getcwd(here, sizeof here));
    return answer();
}

int walks(void) {
    static char first[sizeof said];
    static const char *const roots[] = {"tree", "tree/", "./tree/a", "tree/link", "tree/loose", "tree/azz", "none", "", "tree/../tree"};
    CHECK(symlink("a", "tree/link") == 0 && symlink("nowhere", "tree/loose") == 0 && symlink("../../tree", "tree/b/up") == 0, "%d", errno);
    CHECK(mkdir("tree/deep", 0755) == 0 && chdir("tree/deep") == 0, "%d", errno);
    for (int level = 0; level < 40; ++level) {
        CHECK(mkdir("down", 0755) == 0 && chdir("down") == 0, "%d", errno);
    }
    for (int level = 0; level < 42; ++level) {
        CHECK(chdir("..") == 0, "%d", errno);
    }
    for (int flags = -1; flags < 32; ++flags) {
        for (size_t at = 0; at < sizeof roots / sizeof *roots; ++at) {
            for (last_call = 0; last_call < 12; last_call += 4) {
                int one, other, error;
                last_result = flags >= FTW_ACTIONRETVAL ? last_call % 4 : 7;
                length = 0, calls = 0, errno = 0;
                one = flags < 0 ? ftw(roots[at], plainly, 5) : nftw(roots[at], told, 5, flags);
                error = one == -1 ? errno : 0;
                memcpy(first, said, length + 1);
                length = 0, calls = 0, errno = 0;
                said[0] = 0;
                other = flags < 0 ? ours_ftw(roots[at], plainly, 5) : ours_nftw(roots[at], told, 5, flags);
                CHECK(one == other && (one != -1 || error == errno),
                      "'%s' %d %d: %d %d, %d %d", roots[at], flags, last_call, one, other, error, errno);
                CHECK(calls == 0 || strcmp(first, said) == 0, "'%s' %d %d:\n%.600s----\n%.600s", roots[at], flags, last_call, first, said);
                if (failures > 3) {
                    return failures;
                }
            }
        }
    }
    CHECK(ours_nftw("tree", told, 5, 64) == -1 && errno == EINVAL, "%d", errno);
    return failures;
}

#define SAME_TEXT(member) CHECK(strcmp(left->member, right->member) == 0, "%s %s", left->member, right->member)

static void same_user(const struct passwd *left, const struct passwd *right) {
    CHECK(left != NULL && right != NULL, "%d %d", left != NULL, right != NULL);
    if (left != NULL && right != NULL) {
        SAME_TEXT(pw_name);
        SAME_TEXT(pw_passwd);
        SAME_TEXT(pw_gecos);
        SAME_TEXT(pw_dir);
        SAME_TEXT(pw_shell);
        CHECK(left->pw_uid == right->pw_uid && left->pw_gid == right->pw_gid, "%s", left->pw_name);
    }
}
static void same_group(const struct group *left, const struct group *right) {
    CHECK(left != NULL && right != NULL, "%d %d", left != NULL, right != NULL);
    if (left != NULL && right != NULL) {
        int at = 0;
        SAME_TEXT(gr_name);
        SAME_TEXT(gr_passwd);
        CHECK(left->gr_gid == right->gr_gid, "%s", left->gr_name);
        for (; left->gr_mem[at] != NULL && right->gr_mem[at] != NULL; ++at) {
            SAME_TEXT(gr_mem[at]);
        }
        CHECK(left->gr_mem[at] == NULL && right->gr_mem[at] == NULL, "%s", left->gr_name);
    }
}

int users(void) {
    const struct passwd *user;
    const struct group *group;
    int count = 0;
    failures = 0;
    /* The machine may have other sources beside the files, so each of ours is there, not the other way round. */
    while ((user = ours_getpwent()) != NULL) {
        same_user(getpwnam(user->pw_name), user);
        ++count;
    }
    ours_endpwent();
    while ((group = ours_getgrent()) != NULL) {
        same_group(getgrnam(group->gr_name), group);
        ++count;
    }
    ours_endgrent();
    CHECK(count > 1, "%d", count);
    same_user(getpwuid(0), ours_getpwuid(0));
    same_user(getpwnam("root"), ours_getpwnam("root"));
    same_group(getgrgid(0), ours_getgrgid(0));
    same_group(getgrnam("root"), ours_getgrnam("root"));
    errno = 0;
    CHECK(ours_getpwnam("no such user") == NULL && ours_getpwuid(4000000000u) == NULL && errno == 0, "%d", errno);
    CHECK(ours_getgrnam("no such group") == NULL && ours_getgrgid(4000000000u) == NULL && errno == 0, "%d", errno);
    return failures;
}
