/* <ftw.h>: ftw(3), nftw(3). What is under way is a list of directories, each with the names that are left of it, so that no
 * depth of a tree takes stack. */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* For tests on a machine of its own headers, where <unistd.h> is this library's part alone. */
int chdir(const char *path), fchdir(int folder), close(int descriptor);

typedef int told_by_ftw(const char *, const struct stat *, int);
typedef int told_by_nftw(const char *, const struct stat *, int, struct FTW *);

/* A directory whose names are walked. */
struct folder {
    char **names;
    size_t count, next;
    size_t length; /* of its path */
    int base;
    struct stat about;
};

struct walk {
    told_by_ftw *plainly;
    told_by_nftw *told;
    int flags;
    int origin; /* the working directory, with FTW_CHDIR */
    dev_t device;
    char *path;
    size_t room;
    struct folder *folders;
    size_t depth, depth_room;
    struct stat *seen; /* directories, where links are followed */
    size_t seen_count, seen_room;
};

/* Room for one more of `count`; 0 with ENOMEM if there is none. */
static int grow(void **list, size_t count, size_t *room, size_t bytes) {
    if (count < *room) {
        return 1;
    }
    void *more = reallocarray(*list, 2 * *room + 16, bytes);
    if (more == NULL) {
        errno = ENOMEM;
        return 0;
    }
    *list = more;
    *room = 2 * *room + 16;
    return 1;
}

static void forget(struct folder *folder) {
    while (folder->count != 0) {
        free(folder->names[--folder->count]);
    }
    free(folder->names);
    folder->names = NULL;
}

/* The names in the directory of the path: 0, an errno, or -ENOMEM where the walk cannot go on. */
static int list(struct walk *walk, struct folder *into) {
    size_t room = 0;
    struct dirent *entry;
    int error = 0;
    DIR *folder = opendir(walk->path);
    if (folder == NULL) {
        return errno;
    }
    for (;;) {
        errno = 0;
        entry = readdir(folder);
        if (entry == NULL) {
            error = errno;
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (!grow((void **)&into->names, into->count, &room, sizeof *into->names) ||
            (into->names[into->count] = strdup(entry->d_name)) == NULL) {
            error = -ENOMEM;
            break;
        }
        ++into->count;
    }
    (void)closedir(folder);
    return error;
}

/* Tells the function of the file of the path, with FTW_CHDIR in its directory. */
static int tell(struct walk *walk, const struct stat *about, int type, int base) {
    struct FTW place = {base, (int)walk->depth};
    int result;
    if (walk->told == NULL) {
        return walk->plainly(walk->path, about, type == FTW_SLN ? FTW_NS : type);
    }
    /* As with glibc, of a directory after what is in it: in itself. */
    if ((walk->flags & FTW_CHDIR) != 0 && (base != 0 || type == FTW_DP)) {
        char *name = type == FTW_DP ? strchr(walk->path, 0) : walk->path + base, first = *name;
        *name = 0;
        result = chdir(walk->path);
        *name = first;
        if (result != 0) {
            return -1;
        }
    }
    result = walk->told(walk->path, about, type, &place);
    if ((walk->flags & FTW_CHDIR) != 0 && fchdir(walk->origin) != 0) {
        return -1;
    }
    return result;
}

/* Whether a directory was walked already, where links are followed; -1 with ENOMEM. */
static int was_seen(struct walk *walk, const struct stat *about) {
    if (walk->flags & FTW_PHYS) {
        return 0;
    }
    for (size_t at = 0; at < walk->seen_count; ++at) {
        if (walk->seen[at].st_ino == about->st_ino && walk->seen[at].st_dev == about->st_dev) {
            return 1;
        }
    }
    if (!grow((void **)&walk->seen, walk->seen_count, &walk->seen_room, sizeof *walk->seen)) {
        return -1;
    }
    walk->seen[walk->seen_count++] = *about;
    return 0;
}

/* What the function said of a file: 0 to go on. */
static int decided(struct walk *walk, int said) {
    if ((walk->flags & FTW_ACTIONRETVAL) == 0) {
        return said;
    }
    if (said == FTW_SKIP_SIBLINGS && walk->depth != 0) {
        struct folder *above = &walk->folders[walk->depth - 1];
        above->next = above->count;
        return 0;
    }
    return said == FTW_SKIP_SIBLINGS || said == FTW_SKIP_SUBTREE ? 0 : said;
}

/* The file of the path: tells of it, and begins the walk of a directory. */
static int visit(struct walk *walk, int base) {
    struct stat about;
    int said, type = FTW_F, physical = walk->flags & FTW_PHYS;
    memset(&about, 0, sizeof about);
    if ((physical ? lstat : stat)(walk->path, &about) != 0) {
        int error = errno;
        if (!physical && error == ENOENT && lstat(walk->path, &about) == 0 && S_ISLNK(about.st_mode)) {
            type = FTW_SLN;
        } else if (walk->depth == 0 || (error != EACCES && error != ENOENT)) {
            errno = error;
            return -1;
        } else {
            type = FTW_NS;
        }
    } else if (S_ISLNK(about.st_mode)) {
        type = FTW_SL;
    } else if (S_ISDIR(about.st_mode)) {
        type = FTW_D;
    }
    if (walk->depth == 0) {
        walk->device = about.st_dev;
    } else if ((walk->flags & FTW_MOUNT) != 0 && type != FTW_NS && about.st_dev != walk->device) {
        return 0;
    }
    if (type != FTW_D) {
        return decided(walk, tell(walk, &about, type, base));
    }
    said = was_seen(walk, &about);
    if (said != 0) {
        return said > 0 ? 0 : -1;
    }
    if (!grow((void **)&walk->folders, walk->depth, &walk->depth_room, sizeof *walk->folders)) {
        return -1;
    }
    struct folder *folder = &walk->folders[walk->depth];
    *folder = (struct folder){NULL, 0, 0, strlen(walk->path), base, about};
    said = list(walk, folder);
    if (said != 0) {
        forget(folder);
        if (said != EACCES) {
            errno = said < 0 ? -said : said;
            return -1;
        }
        return decided(walk, tell(walk, &about, FTW_DNR, base));
    }
    if ((walk->flags & FTW_DEPTH) == 0) {
        int action = tell(walk, &about, FTW_D, base);
        said = decided(walk, action);
        if (said != 0 || ((walk->flags & FTW_ACTIONRETVAL) != 0 && action != FTW_CONTINUE)) {
            forget(folder);
            return said;
        }
    }
    ++walk->depth;
    return 0;
}

/* The next name of the directory under way, or its end. */
static int step(struct walk *walk) {
    struct folder *folder = &walk->folders[walk->depth - 1];
    if (folder->next < folder->count) {
        const char *name = folder->names[folder->next++];
        size_t length = folder->length, bytes = strlen(name) + 1;
        if (length + bytes + 1 > walk->room) {
            char *more = realloc(walk->path, 2 * (length + bytes + 1));
            if (more == NULL) {
                errno = ENOMEM;
                return -1;
            }
            walk->path = more;
            walk->room = 2 * (length + bytes + 1);
        }
        if (length == 0 || walk->path[length - 1] != '/') {
            walk->path[length++] = '/';
        }
        memcpy(walk->path + length, name, bytes);
        return visit(walk, (int)length);
    }
    walk->path[folder->length] = 0;
    forget(folder);
    --walk->depth;
    if ((walk->flags & FTW_DEPTH) == 0) {
        return 0;
    }
    struct stat about = folder->about;
    return decided(walk, tell(walk, &about, FTW_DP, folder->base));
}

static int begin(struct walk *walk, const char *path) {
    size_t length = strlen(path), base;
    int result;
    if (length == 0) {
        errno = ENOENT;
        return -1;
    }
    /* Slashes at the end are not part of the path that is told, but for the root's. */
    while (length > 1 && path[length - 1] == '/') {
        --length;
    }
    for (base = length; base > 0 && path[base - 1] != '/'; --base) {}
    base = length == 1 && path[0] == '/' ? 0 : base;
    walk->origin = -1;
    walk->room = length + 257;
    walk->path = malloc(walk->room);
    if (walk->path == NULL) {
        errno = ENOMEM;
        return -1;
    }
    memcpy(walk->path, path, length);
    walk->path[length] = 0;
    if ((walk->flags & FTW_CHDIR) != 0 && (walk->origin = open(".", O_RDONLY | O_DIRECTORY)) < 0) {
        free(walk->path);
        return -1;
    }
    result = visit(walk, (int)base);
    while (result == 0 && walk->depth != 0) {
        result = step(walk);
    }
    {
        int error = errno;
        while (walk->depth != 0) {
            forget(&walk->folders[--walk->depth]);
        }
        free(walk->folders);
        free(walk->seen);
        free(walk->path);
        if (walk->origin >= 0) {
            (void)close(walk->origin);
        }
        errno = error;
    }
    return result;
}

int ftw(const char *path, told_by_ftw *told, int descriptors) {
    struct walk walk = {.plainly = told};
    (void)descriptors;
    return begin(&walk, path);
}

int nftw(const char *path, told_by_nftw *told, int descriptors, int flags) {
    struct walk walk = {.told = told, .flags = flags};
    (void)descriptors;
    if ((flags & ~(FTW_PHYS | FTW_MOUNT | FTW_CHDIR | FTW_DEPTH | FTW_ACTIONRETVAL)) != 0) {
        errno = EINVAL;
        return -1;
    }
    return begin(&walk, path);
}
