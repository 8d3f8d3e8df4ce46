/* Found in the place of a C library's <stdlib.h>: see <gpufs/drop_in.h>. */
#pragma GCC system_header
#if defined(__CUDACC__) || defined(__HIP__) || defined(GPUFS_READING_C_LIBRARY_)
#include_next <stdlib.h>
#elif defined(__NVPTX__) || defined(__AMDGCN__)
#if __has_include_next(<stdlib.h>)
#include_next <stdlib.h>
#endif
#endif
#if !defined(__CUDACC__) && !defined(__HIP__) && !defined(GPUFS_READING_C_LIBRARY_) && !defined(GPUFS_IN_MODE_)
#include <gpufs/standard/stdlib.h>
#endif
