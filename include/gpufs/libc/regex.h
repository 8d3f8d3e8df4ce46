/* POSIX <regex.h>, on a GPU: types and declarations for sources that include it. There are no functions: a program that
 * calls one does not link. */
#ifndef GPUFS_LIBC_REGEX_H
#define GPUFS_LIBC_REGEX_H
#include <stddef.h>
typedef int regoff_t;
typedef struct {
    size_t re_nsub;
    void *gpufs_compiled;
} regex_t;
typedef struct {
    regoff_t rm_so;
    regoff_t rm_eo;
} regmatch_t;
#define REG_EXTENDED 1
#define REG_ICASE 2
#define REG_NEWLINE 4
#define REG_NOSUB 8
#define REG_NOTBOL 1
#define REG_NOTEOL 2
#define REG_NOMATCH 1
#define REG_ESPACE 12
int regcomp(regex_t *__restrict into, const char *__restrict pattern, int flags);
int regexec(const regex_t *__restrict compiled, const char *__restrict text, size_t matches,
            regmatch_t *__restrict into, int flags);
size_t regerror(int error, const regex_t *__restrict compiled, char *__restrict into, size_t bytes);
void regfree(regex_t *compiled);
#endif
