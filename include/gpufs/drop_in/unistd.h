/* Found in the place of a C library's <unistd.h>: see <gpufs/drop_in.h>. */
#pragma GCC system_header
#if defined(__CUDACC__) || defined(__HIP__) || defined(GPUFS_READING_C_LIBRARY_)
#include_next <unistd.h>
#elif !defined(GPUFS_IN_MODE_)
#if defined(__NVPTX__) || defined(__AMDGCN__)
#if __has_include_next(<unistd.h>)
#include_next <unistd.h>
#endif
#endif
#include <gpufs/standard/unistd.h>
#endif
