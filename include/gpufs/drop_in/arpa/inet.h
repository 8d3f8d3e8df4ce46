/* Found in the place of a C library's <arpa/inet.h>: see <gpufs/drop_in.h>. */
#pragma GCC system_header
#if !defined(__NVPTX__) && !defined(__AMDGCN__) || defined(__CUDACC__) || defined(__HIP__)
#include_next <arpa/inet.h>
#else
#include <gpufs/standard/arpa/inet.h>
#endif
