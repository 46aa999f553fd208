// Where a thread is, in three dimensions.
extern "C" __global__ void coordinates(int* out) {
  const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  int* to = out + (block * blockDim.x * blockDim.y * blockDim.z + thread) * 6;
  const int values[6] = {(int)blockIdx.x,  (int)blockIdx.y,  (int)blockIdx.z,
                         (int)threadIdx.x, (int)threadIdx.y, (int)threadIdx.z};
  for (int i = 0; i < 6; ++i) to[i] = values[i];
}
