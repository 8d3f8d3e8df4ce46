/* C11 7.2, on a GPU. A failed assertion writes a line to the standard error and aborts. */
#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) \
    ((condition) ? (void)0 : gpufs_assertion_failed(#condition, __FILE__, __LINE__, __func__))
#endif
#ifndef GPUFS_LIBC_ASSERT_H
#define GPUFS_LIBC_ASSERT_H
#if !defined(__cplusplus)
#define static_assert _Static_assert
#endif
_Noreturn void gpufs_assertion_failed(const char *text, const char *file, unsigned line, const char *function);
#endif
