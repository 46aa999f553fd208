// y[row] = sum of a row of x, one block a row: shuffles in a warp, shared memory between warps.
template <typename T>
__device__ T warp_sum(T value) {
#pragma unroll
  for (int by = 16; by > 0; by /= 2) value += __shfl_down_sync(0xffffffffu, value, by);
  return value;
}

__device__ __forceinline__ float block_sum(float value) {
  __shared__ float parts[32];
  const int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
  value = warp_sum(value);
  if (lane == 0) parts[warp] = value;
  __syncthreads();
  value = threadIdx.x < blockDim.x / warpSize ? parts[lane] : 0;
  __syncthreads();
  if (warp == 0) value = warp_sum(value);
  return value;
}

extern "C" __global__ void row_sums(const float* x, float* y, int columns) {
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    sum += x[(long long)blockIdx.x * columns + i];
  }
  sum = block_sum(sum);
  const float again = block_sum(threadIdx.x == 0 ? sum : 0);
  if (threadIdx.x == 0) y[blockIdx.x] = again;
}
