// Every thread updates the same places.
extern "C" __global__ void atomics(const int* x, float* f, double* d, int* i,
                                   unsigned long long* u) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(f, x[t]);
  atomicAdd(d, x[t] * 0.5);
  atomicAdd(i, x[t]);
  atomicSub(i + 1, x[t]);
  atomicMax(i + 2, x[t]);
  atomicMin(i + 3, x[t]);
  atomicOr(i + 4, 1 << t % 31);
  atomicAnd(i + 5, ~(1 << t % 31));
  atomicXor(i + 6, x[t]);
  for (int seen = 0, old = -1; seen != old;) {
    old = seen;
    seen = atomicCAS(i + 7, old, old + 3);
  }
  atomicAdd(u, 1ull << 33);
  atomicMax(u + 1, x[t] + (1ull << 40));
  const unsigned long long place = atomicAdd(u + 2, 1);
  u[3 + place] = t;
  atomicExch(u + 3 + gridDim.x * blockDim.x, 7);
}
