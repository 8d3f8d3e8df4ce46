/* C23 7.8: PRIb8 to SCNbPTR, in the lengths that this compiler's types have. */
#ifndef GPUFS_STANDARD_BINARY_H
#define GPUFS_STANDARD_BINARY_H

#pragma GCC system_header

#if defined(__INT64_TYPE__) && defined(__LP64__)
#define GPUFS_LENGTH_64_ "l"
#else
#define GPUFS_LENGTH_64_ "ll"
#endif
/* Linux's fast types of more than 8 bits have 64, clang's for a GPU have their size. */
#if defined(__NVPTX__) || defined(__AMDGCN__)
#define GPUFS_LENGTH_FAST_16_ "h"
#define GPUFS_LENGTH_FAST_32_ ""
#else
#define GPUFS_LENGTH_FAST_16_ GPUFS_LENGTH_64_
#define GPUFS_LENGTH_FAST_32_ GPUFS_LENGTH_64_
#endif
#define PRIb8 "hh" "b"
#define PRIbLEAST8 "hh" "b"
#define PRIb16 "h" "b"
#define PRIbLEAST16 "h" "b"
#define PRIb32 "b"
#define PRIbLEAST32 "b"
#define PRIb64 GPUFS_LENGTH_64_ "b"
#define PRIbLEAST64 GPUFS_LENGTH_64_ "b"
#define PRIbFAST8 "hh" "b"
#define PRIbFAST16 GPUFS_LENGTH_FAST_16_ "b"
#define PRIbFAST32 GPUFS_LENGTH_FAST_32_ "b"
#define PRIbFAST64 GPUFS_LENGTH_64_ "b"
#define PRIbMAX "jb"
#define PRIbPTR GPUFS_LENGTH_64_ "b"
#define PRIB8 "hh" "B"
#define PRIBLEAST8 "hh" "B"
#define PRIB16 "h" "B"
#define PRIBLEAST16 "h" "B"
#define PRIB32 "B"
#define PRIBLEAST32 "B"
#define PRIB64 GPUFS_LENGTH_64_ "B"
#define PRIBLEAST64 GPUFS_LENGTH_64_ "B"
#define PRIBFAST8 "hh" "B"
#define PRIBFAST16 GPUFS_LENGTH_FAST_16_ "B"
#define PRIBFAST32 GPUFS_LENGTH_FAST_32_ "B"
#define PRIBFAST64 GPUFS_LENGTH_64_ "B"
#define PRIBMAX "jB"
#define PRIBPTR GPUFS_LENGTH_64_ "B"
#define SCNb8 "hh" "b"
#define SCNbLEAST8 "hh" "b"
#define SCNb16 "h" "b"
#define SCNbLEAST16 "h" "b"
#define SCNb32 "b"
#define SCNbLEAST32 "b"
#define SCNb64 GPUFS_LENGTH_64_ "b"
#define SCNbLEAST64 GPUFS_LENGTH_64_ "b"
#define SCNbFAST8 "hh" "b"
#define SCNbFAST16 GPUFS_LENGTH_FAST_16_ "b"
#define SCNbFAST32 GPUFS_LENGTH_FAST_32_ "b"
#define SCNbFAST64 GPUFS_LENGTH_64_ "b"
#define SCNbMAX "jb"
#define SCNbPTR GPUFS_LENGTH_64_ "b"

#endif
