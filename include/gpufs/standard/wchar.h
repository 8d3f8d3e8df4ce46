/* <wchar.h> of sources that know nothing of gpufs: wide characters. In CUDA and HIP files there are no wide
 * streams. */
#ifndef GPUFS_STANDARD_WCHAR_H
#define GPUFS_STANDARD_WCHAR_H

#include <gpufs/standard/mode.h>

#pragma GCC system_header

/* <cwchar> names them all. */
#if defined(GPUFS_DROP_IN_HOST_)
#define GPUFS_READING_C_LIBRARY_
#include <gpufs/standard/wide_hide.h>
#include <wchar.h>
#include <gpufs/standard/wide_show.h>
#undef GPUFS_READING_C_LIBRARY_
#elif defined(GPUFS_DROP_IN_HOST_)
#define GPUFS_READING_C_LIBRARY_
#include <wchar.h>
#undef GPUFS_READING_C_LIBRARY_
#endif

#if !defined(GPUFS_DROP_IN_SPLIT_) && defined(WEOF)
#include <gpufs/standard/wide_streams.h>
#endif

#endif
