/* C11 7.22 and what POSIX adds, on a GPU. malloc takes from the program's heap (gpufs run --heap). */
#ifndef GPUFS_LIBC_STDLIB_H
#define GPUFS_LIBC_STDLIB_H
#include <stddef.h>

#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#define RAND_MAX 2147483647
#define MB_CUR_MAX 1

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
/* There is no shell: 0 for null, else -1 with ENOSYS. */
int system(const char *command);

/* null and ENOMEM when the heap is used up. free of what malloc did not return is told, and aborts. */
void *malloc(size_t bytes);
void *calloc(size_t items, size_t bytes);
void *realloc(void *block, size_t bytes);
void *reallocarray(void *block, size_t items, size_t bytes);
/* Up to 16 bytes. */
void *aligned_alloc(size_t alignment, size_t bytes);
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
#endif
