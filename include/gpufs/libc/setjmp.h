/* C11 7.13, on a GPU, which has no jump from one function into another: gpufs build makes of it that the functions between
 * return, one after the other. The frame of the function with the setjmp says where a jump leads; one that has returned,
 * or an environment that was never set, ends the program with a line on the standard error and status 134. */
#ifndef GPUFS_LIBC_SETJMP_H
#define GPUFS_LIBC_SETJMP_H
struct gpufs_jump {
    void *frame;
    long place;
};
typedef struct gpufs_jump jmp_buf[1];
typedef struct gpufs_jump sigjmp_buf[1];
/* No function: tools/gpufs/src/build/jumps.rs puts code in its place. */
int gpufs_setjmp_(struct gpufs_jump *environment);
#if !defined(GPUFS_LIBC_BUILDING)
_Noreturn
#endif
void gpufs_longjmp_(struct gpufs_jump *environment, int value);
/* Compilers know a function of the name longjmp, and that it does not return. */
#define longjmp gpufs_longjmp_
#define _longjmp gpufs_longjmp_
#define siglongjmp gpufs_longjmp_
#define setjmp(environment) gpufs_setjmp_(environment)
#define _setjmp(environment) gpufs_setjmp_(environment)
/* There is no mask of signals. */
#define sigsetjmp(environment, mask) ((void)(mask), gpufs_setjmp_(environment))
#endif
