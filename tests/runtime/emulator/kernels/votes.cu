// What warps agree on: out[kind][thread].
extern "C" __global__ void votes(const int* x, unsigned int* out) {
  const int t = threadIdx.x, n = blockDim.x;
  out[t] = __ballot_sync(0xffffffffu, x[t] > 0);
  out[n + t] = __any_sync(0xffffffffu, x[t] > 5);
  __syncwarp();
  const unsigned int part = 0xffu << t % 32 / 8 * 8;
  out[2 * n + t] = __ballot_sync(part, x[t] & 1);
  out[3 * n + t] = x[t] > 0 ? __ballot_sync(out[t], 1) : 0;
}
