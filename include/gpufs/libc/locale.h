/* C11 7.11, on a GPU: the locale "C" is the only one. */
#ifndef GPUFS_LIBC_LOCALE_H
#define GPUFS_LIBC_LOCALE_H
#include <stddef.h>
#define LC_CTYPE 0
#define LC_NUMERIC 1
#define LC_TIME 2
#define LC_COLLATE 3
#define LC_MONETARY 4
#define LC_MESSAGES 5
#define LC_ALL 6
struct lconv {
    char *decimal_point;
    char *thousands_sep;
    char *grouping;
};
/* "C", or null for another locale. "" is "C". */
static __inline__ char *setlocale(int category, const char *locale) {
    (void)category;
    if (locale == NULL || locale[0] == 0 || (locale[0] == 'C' && locale[1] == 0)) {
        return (char *)"C";
    }
    return NULL;
}
static __inline__ struct lconv *localeconv(void) {
    static struct lconv conventions = {(char *)".", (char *)"", (char *)""};
    return &conventions;
}
#endif
