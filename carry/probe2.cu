#include <cstdio>
#include <cstdint>
#include <algorithm>
#include <vector>
#include <cuda_runtime.h>
template<int N,int P> __device__ __forceinline__ void strided(uint4* to,const uint4* from,int words){
  for(int at=0; at<words; at+=P*N){
#pragma unroll 1
   for(int h=0;h<P;h++){ uint4 v[N];
#pragma unroll
    for(int i=0;i<N;i++) v[i]=from[at+P*i+h];
#pragma unroll
    for(int i=0;i<N;i++) to[at+P*i+h]=v[i]; } } }
template<int N,int P> __device__ __forceinline__ void small(uint4* to4,const uint4* from4,int words4){
  uint32_t*to=(uint32_t*)to4; const uint32_t*from=(const uint32_t*)from4; int words=words4*4;
  for(int at=0; at<words; at+=P*N){
#pragma unroll 1
   for(int h=0;h<P;h++){ uint32_t v[N];
#pragma unroll
    for(int i=0;i<N;i++) v[i]=from[at+P*i+h];
#pragma unroll
    for(int i=0;i<N;i++) to[at+P*i+h]=v[i]; } } }
template<class F> __device__ void go(F f,const char* from,char* to,uint32_t* flag,int rounds,uint32_t* times,bool out){
  for(int r=0;r<rounds;r++){
    uint32_t x; asm volatile("ld.acquire.gpu.u32 %0,[%1];":"=r"(x):"l"(flag):"memory");
    uint64_t page=((uint64_t)r*2654435761u)%4096;
    long long a=clock64();
    f((uint4*)(to+page*4096),(const uint4*)(from+page*4096),256);
    if(out) asm volatile("fence.acq_rel.sys;":::"memory"); else asm volatile("fence.acq_rel.gpu;":::"memory");
    times[blockIdx.x*rounds+r]=(uint32_t)(clock64()-a)+x;
  } }
#define K(name,...) __global__ void name(const char* h,char* d,uint32_t* f,int r,uint32_t* t,bool o){ go([](uint4*a,const uint4*b,int w){ __VA_ARGS__(a,b,w); },h,d,f,r,t,o);}
K(w16x1,strided<16,1>) K(w16x2,strided<16,2>) K(w16x4,strided<16,4>) K(w16x8,strided<16,8>) K(w8x2,strided<8,2>) K(s8x1,small<8,1>) K(s8x8,small<8,8>) K(s16x8,small<16,8>) K(s8x16,small<8,16>)
int main(){ char*h,*d; uint32_t*f,*t; int R=500; cudaMallocHost(&h,16<<20); for(int i=0;i<(16<<20);i++) h[i]=(i*31+i/4096)^(i>>7); cudaMalloc(&d,16<<20); cudaMalloc(&f,4); cudaMemset(f,0,4); cudaMalloc(&t,R*4*2048);
  std::vector<uint32_t> v; 
  int khz; cudaDeviceGetAttribute(&khz,cudaDevAttrClockRate,0);
  auto run=[&](const char*n,void(*k)(const char*,char*,uint32_t*,int,uint32_t*,bool)){ printf("%-6s",n); for(int blocks: {1,528}) for(int out=0;out<2;out++){ int r=blocks==1?R:60; v.resize(blocks*r); k<<<blocks,1>>>(out?d:h,out?h:d,f,r,t,out); cudaError_t e=cudaDeviceSynchronize(); cudaMemcpy(v.data(),t,v.size()*4,cudaMemcpyDefault); std::sort(v.begin(),v.end()); printf("  %s x%d p50 %7.2f us p99 %7.2f %s",out?"out":"in",blocks,v[v.size()/2]*1e3/khz,v[v.size()*99/100]*1e3/khz,e?cudaGetErrorString(e):""); } printf("\n"); };
#define G(n) run(#n,n);
  for(int i=0;i<2;i++){ G(w16x1)G(w16x2)G(w16x4)G(w16x8)G(w8x2)G(s8x1)G(s8x8)G(s16x8)G(s8x16) }
}
