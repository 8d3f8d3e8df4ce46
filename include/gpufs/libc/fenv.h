/* C11 7.6, on a GPU: numbers are rounded to nearest, and no exceptions of floating point are noted. */
#ifndef GPUFS_LIBC_FENV_H
#define GPUFS_LIBC_FENV_H
typedef unsigned fenv_t;
typedef unsigned fexcept_t;
#define FE_ALL_EXCEPT 0
#define FE_TONEAREST 0
#define FE_DFL_ENV ((const fenv_t *)0)
static __inline__ int feclearexcept(int exceptions) { return exceptions != 0; }
static __inline__ int feraiseexcept(int exceptions) { return exceptions != 0; }
static __inline__ int fetestexcept(int exceptions) { return (void)exceptions, 0; }
static __inline__ int fegetround(void) { return FE_TONEAREST; }
static __inline__ int fesetround(int direction) { return direction != FE_TONEAREST; }
static __inline__ int fegetenv(fenv_t *into) { return *into = 0, 0; }
static __inline__ int fesetenv(const fenv_t *from) { return (void)from, 0; }
static __inline__ int feholdexcept(fenv_t *into) { return *into = 0, 0; }
static __inline__ int feupdateenv(const fenv_t *from) { return (void)from, 0; }
#endif
