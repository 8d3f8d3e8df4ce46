/* Found in the place of a C library's <stdio.h>: see <gpufs/drop_in.h>. */
#pragma GCC system_header
#if defined(__CUDACC__) || defined(__HIP__) || defined(GPUFS_READING_C_LIBRARY_)
#include_next <stdio.h>
#endif
#if !defined(GPUFS_READING_C_LIBRARY_) && !defined(__CUDA_INCLUDE_COMPILER_INTERNAL_HEADERS_CUDA_RUNTIME_H__)
#include <gpufs/standard/stdio.h>
#endif
