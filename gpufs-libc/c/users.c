/* <pwd.h>, <grp.h>: users and groups by the files of the host, /etc/passwd and /etc/group. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file of lines, its fields parted by colons. */
struct table {
    const char *path;
    FILE *file; /* open while it is read */
    char *line;
    size_t room;
};

static struct table users = {"/etc/passwd", NULL, NULL, 0}, groups = {"/etc/group", NULL, NULL, 0};

static void leave(struct table *table) {
    if (table->file != NULL) {
        int error = errno;
        (void)fclose(table->file);
        table->file = NULL;
        errno = error;
    }
}

/* The fields of the next line that has so many; 0 at the end, or where there is none to be had. */
static int next(struct table *table, char **fields, int count) {
    if (table->file == NULL && (table->file = fopen(table->path, "r")) == NULL) {
        return 0;
    }
    for (;;) {
        size_t length = 0;
        do {
            if (table->room - length < 2) {
                char *more = realloc(table->line, 2 * table->room + 512);
                if (more == NULL) {
                    errno = ENOMEM;
                    return 0;
                }
                table->line = more;
                table->room = 2 * table->room + 512;
            }
            if (fgets(table->line + length, (int)(table->room - length), table->file) == NULL) {
                break;
            }
            length += strlen(table->line + length);
        } while (length != 0 && table->line[length - 1] != '\n');
        if (length == 0) {
            return 0;
        }
        if (table->line[length - 1] == '\n') {
            table->line[length - 1] = 0;
        }
        char *at = table->line;
        int found = 0;
        while (at != NULL && found < count) {
            fields[found++] = at;
            if ((at = strchr(at, ':')) != NULL) {
                *at++ = 0;
            }
        }
        if (found == count && at == NULL && *fields[0] != 0 && *fields[0] != '#') {
            return 1;
        }
    }
}

/* A number that a field is; 0 where it is none. */
static int number(const char *field, unsigned *into) {
    char *end;
    unsigned long value = strtoul(field, &end, 10);
    *into = (unsigned)value;
    return end != field && *end == 0 && value <= 0xffffffffu;
}

struct passwd *getpwent(void) {
    static struct passwd user;
    char *fields[7];
    while (next(&users, fields, 7)) {
        if (number(fields[2], &user.pw_uid) && number(fields[3], &user.pw_gid)) {
            user.pw_name = fields[0];
            user.pw_passwd = fields[1];
            user.pw_gecos = fields[4];
            user.pw_dir = fields[5];
            user.pw_shell = fields[6];
            return &user;
        }
    }
    return NULL;
}
void setpwent(void) { leave(&users); }
void endpwent(void) { leave(&users); }

struct passwd *getpwnam(const char *name) {
    struct passwd *user;
    leave(&users);
    while ((user = getpwent()) != NULL && strcmp(user->pw_name, name) != 0) {}
    leave(&users);
    return user;
}
struct passwd *getpwuid(uid_t wanted) {
    struct passwd *user;
    leave(&users);
    while ((user = getpwent()) != NULL && user->pw_uid != wanted) {}
    leave(&users);
    return user;
}

struct group *getgrent(void) {
    static struct group group;
    static char *none;
    char *fields[4];
    while (next(&groups, fields, 4)) {
        if (!number(fields[2], &group.gr_gid)) {
            continue;
        }
        size_t count = *fields[3] != 0;
        for (const char *at = fields[3]; (at = strchr(at, ',')) != NULL; ++at) {
            ++count;
        }
        free(group.gr_mem == &none ? NULL : group.gr_mem);
        group.gr_mem = count == 0 ? &none : calloc(count + 1, sizeof *group.gr_mem);
        if (group.gr_mem == NULL) {
            errno = ENOMEM;
            return NULL;
        }
        char *at = fields[3];
        for (size_t member = 0; member < count; ++member) {
            group.gr_mem[member] = at;
            if ((at = strchr(at, ',')) != NULL) {
                *at++ = 0;
            }
        }
        group.gr_name = fields[0];
        group.gr_passwd = fields[1];
        return &group;
    }
    return NULL;
}
void setgrent(void) { leave(&groups); }
void endgrent(void) { leave(&groups); }

struct group *getgrnam(const char *name) {
    struct group *group;
    leave(&groups);
    while ((group = getgrent()) != NULL && strcmp(group->gr_name, name) != 0) {}
    leave(&groups);
    return group;
}
struct group *getgrgid(gid_t wanted) {
    struct group *group;
    leave(&groups);
    while ((group = getgrent()) != NULL && group->gr_gid != wanted) {}
    leave(&groups);
    return group;
}
