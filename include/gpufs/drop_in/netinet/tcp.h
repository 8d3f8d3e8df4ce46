/* Found in the place of a C library's <netinet/tcp.h>: see <gpufs/drop_in.h>. */
#pragma GCC system_header
#if !defined(__NVPTX__) && !defined(__AMDGCN__) || defined(__CUDACC__) || defined(__HIP__)
#include_next <netinet/tcp.h>
#else
#include <gpufs/standard/netinet/tcp.h>
#endif
