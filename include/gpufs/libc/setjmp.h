/* C11 7.13, on a GPU, which has no such jump: setjmp returns 0, and longjmp ends the program with a line on the standard
 * error and status 134. A program that jumps only after errors runs up to the first. */
#ifndef GPUFS_LIBC_SETJMP_H
#define GPUFS_LIBC_SETJMP_H
typedef int jmp_buf[1];
typedef int sigjmp_buf[1];
_Noreturn void gpufs_no_longjmp(void);
#define setjmp(environment) ((void)(environment), 0)
#define _setjmp(environment) ((void)(environment), 0)
#define sigsetjmp(environment, mask) ((void)(environment), (void)(mask), 0)
#define longjmp(environment, value) ((void)(environment), (void)(value), gpufs_no_longjmp())
#define _longjmp(environment, value) longjmp(environment, value)
#define siglongjmp(environment, value) longjmp(environment, value)
#endif
