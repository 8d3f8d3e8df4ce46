/* Found in the place of a C library's <aio.h>: see <gpufs/drop_in.h>. */
#pragma GCC system_header
#if defined(__CUDACC__) || defined(__HIP__) || defined(GPUFS_READING_C_LIBRARY_)
#include_next <aio.h>
#elif !defined(GPUFS_IN_MODE_)
#include <gpufs/standard/aio.h>
#endif
