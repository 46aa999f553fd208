// The halves of a warp take different ways, and meet among themselves.
extern "C" __global__ void half_warps(const int* x, int* y) {
  __shared__ int s[64];
  const int t = threadIdx.x;
  s[t] = x[t];
  if (t % 32 < 16) {
    for (int i = 0; i < 3; ++i) {
      __syncwarp(0x0000ffffu);
      const int next = s[t / 32 * 32 + (t + 1) % 16];
      __syncwarp(0x0000ffffu);
      s[t] = next;
    }
    y[t] = __shfl_xor_sync(0x0000ffffu, s[t], 1);
  } else {
    __syncwarp(0xffff0000u);
    const int last = s[t | 31];
    y[t] = last + __shfl_down_sync(0xffff0000u, s[t], 1, 16);
  }
}
