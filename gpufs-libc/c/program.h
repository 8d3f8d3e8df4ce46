/* What the parts of the C library share, and what the host and a program's start agree on: tools/gpufs/src/block.rs has
 * the same structure. Users include none of this.
 *
 * One lane runs the program. So the library's state is plain memory.
 */
#ifndef GPUFS_LIBC_PROGRAM_H
#define GPUFS_LIBC_PROGRAM_H

#include <gpufs/raw.h>
#include <stddef.h>
#include <stdint.h>

/* At the start of the memory that the host gives to a program; arguments, environment and heap follow it. */
struct gpufs_program {
    uint64_t argc;
    char **argv; /* argc pointers and a null */
    char **envp; /* ends with a null */
    char *heap;  /* a multiple of 16 */
    uint64_t heap_bytes;
    uint32_t state; /* GPUFS_PROGRAM_... */
    int32_t status; /* what exit was given */
    /* Of the process on the host: its number, its parent's, its user, its effective user, its group, its effective group. */
    int32_t process[6];
};

GPUFS_SIZE_(struct gpufs_program, 72);
GPUFS_OFFSET_(struct gpufs_program, state, 40);

#define GPUFS_PROGRAM_RUNNING 1u
#define GPUFS_PROGRAM_EXITED 2u  /* exit, or a return of main */
#define GPUFS_PROGRAM_ABORTED 3u /* abort, a failed assertion, a corrupt heap */

/* The running program's block. */
extern struct gpufs_program *gpufs_program_;

/* Sets errno. */
void gpufs_libc_errno_(int error);
/* Writes a line to the standard error and aborts. */
_Noreturn void gpufs_die_(const char *text);

#endif
