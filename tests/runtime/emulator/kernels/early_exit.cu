// Threads past the end leave; those that stay still meet at barriers and in warps.
extern "C" __global__ void early_exit(const float* x, float* y, int n) {
  __shared__ float s[96];
  const int t = threadIdx.x;
  if (t >= n) return;
  s[t] = x[t];
  __syncthreads();
  float value = s[n - 1 - t];
  __syncwarp();
  const unsigned int stay = __ballot_sync(0xffffffffu, 1);
  y[t] = value + __popc(stay);
  if (t % 2) return;
  __syncthreads();
  const unsigned int even = __ballot_sync(0xffffffffu, 1);
  y[n + t / 2] = __popc(even) + __shfl_sync(even, value, t % 32);
}
