// Lets the headers of HIP 5.2 and 6.0 for NVIDIA GPUs (hip/nvidia_detail) compile with CUDA 13: nvcc -include hip-on-cuda13.h. It declares
// the names that CUDA 13 has dropped or changed. Calls that were dropped return cudaErrorNotSupported; calls with other arguments are passed
// on. gpufs uses none of them.
#ifndef GPUFS_HIP_ON_CUDA13_H
#define GPUFS_HIP_ON_CUDA13_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#if CUDART_VERSION >= 13000

// Fields that cudaGetDeviceProperties no longer fills: they are 0.
struct gpufs_cuda_device_properties : cudaDeviceProp {
    int clockRate = 0, memoryClockRate = 0, computeMode = 0, kernelExecTimeoutEnabled = 0, cooperativeMultiDeviceLaunch = 0;
    int deviceOverlap = 0, maxTexture1DLinear = 0, singleToDoublePrecisionPerfRatio = 0;
};
#define cudaDeviceProp gpufs_cuda_device_properties
#define cudaDevAttrCooperativeMultiDeviceLaunch static_cast<cudaDeviceAttr>(96) // CUDA 12's number for it

// A device as the cudaMemLocation that CUDA 13 takes.
inline cudaMemLocation gpufs_cuda_place(int device) {
    cudaMemLocation place = {};
    place.type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
    place.id = device == cudaCpuDeviceId ? 0 : device;
    return place;
}
inline cudaError_t cudaMemAdvise(const void *memory, size_t bytes, cudaMemoryAdvise advice, int device) {
    return cudaMemAdvise(memory, bytes, advice, gpufs_cuda_place(device));
}
inline cudaError_t cudaMemPrefetchAsync(const void *memory, size_t bytes, int device, cudaStream_t stream) {
    return cudaMemPrefetchAsync(memory, bytes, gpufs_cuda_place(device), 0, stream);
}
inline CUresult cuCtxCreate_v4(CUcontext *context, unsigned flags, CUdevice device) { return cuCtxCreate_v4(context, nullptr, flags, device); }

// Graphs whose edges carry no data.
inline cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t count) {
    return cudaGraphAddDependencies(graph, from, to, nullptr, count);
}
inline cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t count) {
    return cudaGraphRemoveDependencies(graph, from, to, nullptr, count);
}
inline cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count) {
    return cudaGraphGetEdges(graph, from, to, nullptr, count);
}
inline cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *on, size_t *count) {
    return cudaGraphNodeGetDependencies(node, on, nullptr, count);
}
inline cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *on, size_t *count) {
    return cudaGraphNodeGetDependentNodes(node, on, nullptr, count);
}
inline cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *on, size_t count, unsigned flags) {
    return cudaStreamUpdateCaptureDependencies(stream, on, nullptr, count, flags);
}

inline CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **on,
                                          size_t *count) {
    return cuStreamGetCaptureInfo(stream, status, id, graph, on, nullptr, count);
}

// Texture references, and what else is gone.
template <class T, int dimensions, enum cudaTextureReadMode mode>
struct texture;
#define GPUFS_CUDA_GONE(name)           \
    template <class... A>               \
    inline cudaError_t name(A &&...) {  \
        return cudaErrorNotSupported;   \
    }
GPUFS_CUDA_GONE(cudaBindTexture)
GPUFS_CUDA_GONE(cudaBindTexture2D)
GPUFS_CUDA_GONE(cudaBindTextureToArray)
GPUFS_CUDA_GONE(cudaUnbindTexture)
GPUFS_CUDA_GONE(cudaGetTextureAlignmentOffset)
GPUFS_CUDA_GONE(cudaLaunchCooperativeKernelMultiDevice)
GPUFS_CUDA_GONE(cudaStreamGetCaptureInfo_v2)
#undef GPUFS_CUDA_GONE

#endif
#endif
