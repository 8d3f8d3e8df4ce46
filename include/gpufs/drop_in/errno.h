/* Found in the place of a C library's <errno.h>: see <gpufs/drop_in.h>. */
#pragma GCC system_header
#if !defined(__NVPTX__) && !defined(__AMDGCN__) || defined(__CUDACC__) || defined(__HIP__)
#include_next <errno.h>
#endif
#if !defined(__CUDA_INCLUDE_COMPILER_INTERNAL_HEADERS_CUDA_RUNTIME_H__)
#include <gpufs/standard/errno.h>
#endif
