/* Found in the place of a C library's <sys/eventfd.h>: see <gpufs/drop_in.h>. */
#pragma GCC system_header
#if defined(__CUDACC__) || defined(__HIP__) || defined(GPUFS_READING_C_LIBRARY_)
#include_next <sys/eventfd.h>
#elif !defined(GPUFS_IN_MODE_)
#include <gpufs/standard/sys/eventfd.h>
#endif
