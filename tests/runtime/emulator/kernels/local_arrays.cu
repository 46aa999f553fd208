// Arrays of one thread, indexed at run time, kept across barriers.
extern "C" __global__ void local_arrays(const int* x, int* y, int n) {
  __shared__ int first;
  int values[16];
  for (int i = 0; i < 16; ++i) values[i] = x[(threadIdx.x + i) % n];
  for (int round = 0; round < 3; ++round) {
    if (threadIdx.x == round) first = values[round];
    __syncthreads();
    for (int i = 0; i < 16; ++i) values[i] += first * values[(i + 5) % 16];
    __syncthreads();
  }
  int sum = 0;
  for (int i = 0; i < 16; ++i) sum += values[i];
  y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
