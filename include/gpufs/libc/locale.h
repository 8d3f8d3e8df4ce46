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
    char *decimal_point, *thousands_sep, *grouping;
    char *int_curr_symbol, *currency_symbol, *mon_decimal_point, *mon_thousands_sep, *mon_grouping, *positive_sign, *negative_sign;
    char int_frac_digits, frac_digits, p_cs_precedes, p_sep_by_space, n_cs_precedes, n_sep_by_space, p_sign_posn, n_sign_posn;
    char int_p_cs_precedes, int_p_sep_by_space, int_n_cs_precedes, int_n_sep_by_space, int_p_sign_posn, int_n_sign_posn;
};
/* "C", or null for another locale. "", "POSIX" and "C.UTF-8" are "C", whose multibyte characters are UTF-8. */
static __inline__ char *setlocale(int category, const char *locale) {
    (void)category;
    if (locale == NULL || locale[0] == 0 || (locale[0] == 'C' && locale[1] == 0) || __builtin_strcmp(locale, "POSIX") == 0 ||
        __builtin_strcmp(locale, "C.UTF-8") == 0) {
        return (char *)"C";
    }
    return NULL;
}
static __inline__ struct lconv *localeconv(void) {
#define GPUFS_NONE_ (char *)""
    static struct lconv conventions = {(char *)".",  GPUFS_NONE_, GPUFS_NONE_, GPUFS_NONE_, GPUFS_NONE_,
                                       GPUFS_NONE_, GPUFS_NONE_, GPUFS_NONE_, GPUFS_NONE_, GPUFS_NONE_,
                                       127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127}; /* CHAR_MAX */
#undef GPUFS_NONE_
    return &conventions;
}
#endif
