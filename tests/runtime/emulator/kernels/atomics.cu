// Every thread updates the same places.
extern "C" __global__ void atomics(const int* x, float* f, double* d, int* i,
                                   unsigned long long* u) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(f, x[t]);
  atomicAdd(d, x[t] * 0.5);
  atomicAdd(i, x[t]);
  for (int seen = 0, old = -1; seen != old;) {
    old = seen;
    seen = atomicCAS(i + 1, old, old + 3);
  }
  atomicAdd(u, 1ull << 33);
  const unsigned long long place = atomicAdd(u + 1, 1);
  u[2 + place] = t;
  atomicExch(u + 2 + gridDim.x * blockDim.x, 7);
}
