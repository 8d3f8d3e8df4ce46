/* <pwd.h> (POSIX), on a GPU: what /etc/passwd says. Other sources of users are not asked. */
#ifndef GPUFS_LIBC_PWD_H
#define GPUFS_LIBC_PWD_H
#include <sys/types.h>
struct passwd {
    char *pw_name;
    char *pw_passwd;
    uid_t pw_uid;
    gid_t pw_gid;
    char *pw_gecos;
    char *pw_dir;
    char *pw_shell;
};
/* Null, with errno as it was, for a user that is not there. The result is the library's until the next call. */
struct passwd *getpwnam(const char *name);
struct passwd *getpwuid(uid_t user);
/* The next user of the file; null at its end, from where setpwent or endpwent lead to the start. */
struct passwd *getpwent(void);
void setpwent(void);
void endpwent(void);
#endif
