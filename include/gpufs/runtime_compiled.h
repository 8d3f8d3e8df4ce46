/* What the headers need of <stddef.h>, <stdint.h> and <errno.h>, for compilers at run time (NVRTC, HIPRTC), which have none of them. <gpufs/types.h>
 * includes this file there.
 */
#ifndef GPUFS_RUNTIME_COMPILED_H
#define GPUFS_RUNTIME_COMPILED_H

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;

#define INT8_MAX 127
#define INT16_MAX 32767
#define INT32_MAX 2147483647
#define INT64_MAX 9223372036854775807L
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 4294967295U
#define UINT64_MAX 18446744073709551615UL
#define SIZE_MAX UINT64_MAX
#define UINT32_C(number) number##U
#define INT64_C(number) number##L
#define UINT64_C(number) number##UL
#ifndef NULL
#define NULL 0
#endif

/* errno(3): what .error() of a result is compared with. */
#include <gpufs/standard/errors.h>

#endif
