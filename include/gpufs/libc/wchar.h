/* C11 7.29 and what POSIX adds, on a GPU, but for the streams, which <gpufs/standard/wide_streams.h> has. Multibyte
 * characters are UTF-8, whatever the locale. */
#ifndef GPUFS_LIBC_WCHAR_H
#define GPUFS_LIBC_WCHAR_H
#include <stddef.h>
#include <stdint.h>
#ifndef WEOF
typedef __WINT_TYPE__ wint_t;
#define WEOF ((wint_t)-1)
#endif
/* A character of which some bytes were seen. */
typedef struct {
    unsigned value;
    unsigned char missing;
    unsigned char bytes;
} mbstate_t;
struct tm;
wint_t btowc(int byte);
int wctob(wint_t character);
int mbsinit(const mbstate_t *state);
size_t mbrlen(const char *__restrict from, size_t bytes, mbstate_t *__restrict state);
size_t mbrtowc(wchar_t *__restrict into, const char *__restrict from, size_t bytes, mbstate_t *__restrict state);
size_t wcrtomb(char *__restrict into, wchar_t character, mbstate_t *__restrict state);
size_t mbsrtowcs(wchar_t *__restrict into, const char **__restrict from, size_t most, mbstate_t *__restrict state);
size_t mbsnrtowcs(wchar_t *__restrict into, const char **__restrict from, size_t bytes, size_t most,
                  mbstate_t *__restrict state);
size_t wcsrtombs(char *__restrict into, const wchar_t **__restrict from, size_t most, mbstate_t *__restrict state);
size_t wcsnrtombs(char *__restrict into, const wchar_t **__restrict from, size_t characters, size_t most,
                  mbstate_t *__restrict state);
int wcscasecmp(const wchar_t *left, const wchar_t *right);
wchar_t *wcscat(wchar_t *__restrict to, const wchar_t *__restrict from);
wchar_t *wcschr(const wchar_t *string, wchar_t character);
int wcscmp(const wchar_t *left, const wchar_t *right);
int wcscoll(const wchar_t *left, const wchar_t *right);
wchar_t *wcscpy(wchar_t *__restrict to, const wchar_t *__restrict from);
size_t wcscspn(const wchar_t *string, const wchar_t *refused);
wchar_t *wcsdup(const wchar_t *string);
size_t wcslen(const wchar_t *string);
int wcsncasecmp(const wchar_t *left, const wchar_t *right, size_t most);
wchar_t *wcsncat(wchar_t *__restrict to, const wchar_t *__restrict from, size_t most);
int wcsncmp(const wchar_t *left, const wchar_t *right, size_t most);
wchar_t *wcsncpy(wchar_t *__restrict to, const wchar_t *__restrict from, size_t count);
size_t wcsnlen(const wchar_t *string, size_t most);
wchar_t *wcspbrk(const wchar_t *string, const wchar_t *wanted);
wchar_t *wcsrchr(const wchar_t *string, wchar_t character);
size_t wcsspn(const wchar_t *string, const wchar_t *accepted);
wchar_t *wcsstr(const wchar_t *string, const wchar_t *needle);
wchar_t *wcstok(wchar_t *__restrict string, const wchar_t *__restrict separators, wchar_t **__restrict rest);
size_t wcsxfrm(wchar_t *__restrict to, const wchar_t *__restrict from, size_t count);
wchar_t *wcpcpy(wchar_t *__restrict to, const wchar_t *__restrict from);
wchar_t *wmemchr(const wchar_t *memory, wchar_t character, size_t count);
int wmemcmp(const wchar_t *left, const wchar_t *right, size_t count);
wchar_t *wmemcpy(wchar_t *__restrict to, const wchar_t *__restrict from, size_t count);
wchar_t *wmemmove(wchar_t *to, const wchar_t *from, size_t count);
wchar_t *wmemset(wchar_t *to, wchar_t character, size_t count);
long wcstol(const wchar_t *__restrict text, wchar_t **__restrict end, int base);
long long wcstoll(const wchar_t *__restrict text, wchar_t **__restrict end, int base);
unsigned long wcstoul(const wchar_t *__restrict text, wchar_t **__restrict end, int base);
unsigned long long wcstoull(const wchar_t *__restrict text, wchar_t **__restrict end, int base);
double wcstod(const wchar_t *__restrict text, wchar_t **__restrict end);
float wcstof(const wchar_t *__restrict text, wchar_t **__restrict end);
long double wcstold(const wchar_t *__restrict text, wchar_t **__restrict end);
#endif
