// What blocks agree on: out[kind][thread].
extern "C" __global__ void block_votes(const int* x, int* out) {
  const int t = threadIdx.x, n = blockDim.x;
  out[t] = __syncthreads_count(x[t] > 0);
  out[n + t] = __syncthreads_and(x[t] > -100) != 0;
  out[2 * n + t] = __syncthreads_or(x[t] > 100) != 0;
}
