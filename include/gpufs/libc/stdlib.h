/* C11 7.22 and what POSIX adds, on a GPU. malloc takes from the program's heap (gpufs run --heap). */
#ifndef GPUFS_LIBC_STDLIB_H
#define GPUFS_LIBC_STDLIB_H
#include <stddef.h>

#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#define RAND_MAX 2147483647
#define MB_CUR_MAX 4 /* UTF-8 */

typedef struct {
    int quot;
    int rem;
} div_t;
typedef struct {
    long quot;
    long rem;
} ldiv_t;
typedef struct {
    long long quot;
    long long rem;
} lldiv_t;

_Noreturn void abort(void);
_Noreturn void exit(int status);
_Noreturn void quick_exit(int status);
_Noreturn void _Exit(int status);
int atexit(void (*handler)(void));
int at_quick_exit(void (*handler)(void));
char *getenv(const char *name);
char *secure_getenv(const char *name);
/* What a program changes is its own: commands of popen and system have the host's environment. */
int setenv(const char *name, const char *value, int overwrite);
int unsetenv(const char *name);
int putenv(char *variable);
int clearenv(void);
/* Runs a command in a shell of the host: its status, or -1. What it prints is written to the program's standard output. */
int system(const char *command);

/* null and ENOMEM when the heap is used up. free of what malloc did not return is told, and aborts. */
void *malloc(size_t bytes);
void *calloc(size_t items, size_t bytes);
void *realloc(void *block, size_t bytes);
void *reallocarray(void *block, size_t items, size_t bytes);
/* The alignment is a power of two, else EINVAL. */
void *aligned_alloc(size_t alignment, size_t bytes);
void *memalign(size_t alignment, size_t bytes);
/* 0, or the error, with `into` as it was: EINVAL, ENOMEM. */
int posix_memalign(void **into, size_t alignment, size_t bytes);
void free(void *block);

int atoi(const char *text);
long atol(const char *text);
long long atoll(const char *text);
double atof(const char *text);
long strtol(const char *__restrict text, char **__restrict end, int base);
long long strtoll(const char *__restrict text, char **__restrict end, int base);
unsigned long strtoul(const char *__restrict text, char **__restrict end, int base);
unsigned long long strtoull(const char *__restrict text, char **__restrict end, int base);
/* Correctly rounded. */
double strtod(const char *__restrict text, char **__restrict end);
float strtof(const char *__restrict text, char **__restrict end);
long double strtold(const char *__restrict text, char **__restrict end);

int abs(int value);
long labs(long value);
long long llabs(long long value);
div_t div(int numerator, int denominator);
ldiv_t ldiv(long numerator, long denominator);
lldiv_t lldiv(long long numerator, long long denominator);

/* Stable. */
void qsort(void *base, size_t items, size_t bytes, int (*compare)(const void *, const void *));
void qsort_r(void *base, size_t items, size_t bytes, int (*compare)(const void *, const void *, void *),
             void *context);
void *bsearch(const void *key, const void *base, size_t items, size_t bytes,
              int (*compare)(const void *, const void *));

/* The numbers that glibc draws from the same seed. */
int rand(void);
int rand_r(unsigned *seed);
void srand(unsigned seed);
long random(void);
void srandom(unsigned seed);
/* POSIX's generator of 48 bits. */
double drand48(void);
double erand48(unsigned short state[3]);
long lrand48(void);
long nrand48(unsigned short state[3]);
long mrand48(void);
long jrand48(unsigned short state[3]);
void srand48(long seed);
unsigned short *seed48(unsigned short state[3]);

/* Multibyte characters are UTF-8, whatever the locale. */
int mblen(const char *from, size_t bytes);
int mbtowc(wchar_t *__restrict into, const char *__restrict from, size_t bytes);
int wctomb(char *into, wchar_t character);
size_t mbstowcs(wchar_t *__restrict into, const char *__restrict from, size_t most);
size_t wcstombs(char *__restrict into, const wchar_t *__restrict from, size_t most);

/* A folder of a name that no other has: "XXXXXX" at the end of `path` is replaced. */
char *mkdtemp(char *path);
/* The path without links; PATH_MAX bytes, to be freed where `into` is null. */
char *realpath(const char *__restrict path, char *__restrict into);
#endif
