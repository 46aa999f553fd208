// out[kind][thread] = what a shuffle of the thread's number gives, in parts of `width` lanes.
extern "C" __global__ void shuffles(double* out, int width) {
  const int t = threadIdx.x, n = blockDim.x;
  const unsigned int all = 0xffffffffu;
  out[t] = __shfl_up_sync(all, (double)t, 3, width);
  out[n + t] = __shfl_down_sync(all, (double)t, 3, width);
  out[2 * n + t] = __shfl_xor_sync(all, (double)t, 5, width);
  out[3 * n + t] = __shfl_sync(all, (double)t, 6, width);
  out[4 * n + t] = __shfl_sync(all, t, t + 1, width);
  out[5 * n + t] = __shfl_sync(all, (unsigned char)t, -1, width);
}
