// Each block reverses its part of x, in dynamic shared memory.
extern "C" __global__ void reversed_blocks(const float* x, float* y) {
  extern __shared__ float s[];
  const float* from = x + blockIdx.x * blockDim.x;
  s[threadIdx.x] = from[threadIdx.x];
  __syncthreads();
  y[blockIdx.x * blockDim.x + threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
