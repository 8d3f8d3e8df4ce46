/* <grp.h> (POSIX), on a GPU: what /etc/group says. Other sources of groups are not asked. */
#ifndef GPUFS_LIBC_GRP_H
#define GPUFS_LIBC_GRP_H
#include <sys/types.h>
struct group {
    char *gr_name;
    char *gr_passwd;
    gid_t gr_gid;
    char **gr_mem; /* ends with a null */
};
/* Null, with errno as it was, for a group that is not there. The result is the library's until the next call. */
struct group *getgrnam(const char *name);
struct group *getgrgid(gid_t group);
/* The next group of the file; null at its end, from where setgrent or endgrent lead to the start. */
struct group *getgrent(void);
void setgrent(void);
void endgrent(void);
#endif
