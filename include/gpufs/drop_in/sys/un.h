/* Found in the place of a C library's <sys/un.h>: see <gpufs/drop_in.h>. */
#pragma GCC system_header
#if !defined(__NVPTX__) && !defined(__AMDGCN__) || defined(__CUDACC__) || defined(__HIP__)
#include_next <sys/un.h>
#else
#include <gpufs/standard/sys/un.h>
#endif
