// Dynamic shared memory cut into two arrays, beside a static one.
extern "C" __global__ void carved(const float4* x, float4* y, int* counts) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ int total;
  float4* vectors = reinterpret_cast<float4*>(memory);
  int* numbers = reinterpret_cast<int*>(memory + blockDim.x * sizeof(float4));
  const int t = threadIdx.x, next = (t + 1) % blockDim.x;
  if (t == 0) total = 0;
  vectors[t] = x[blockIdx.x * blockDim.x + t];
  numbers[t] = vectors[t].x > 0;
  __syncthreads();
  y[blockIdx.x * blockDim.x + t] = vectors[next];
  atomicAdd(&total, numbers[next]);
  __syncthreads();
  if (t == 0) counts[blockIdx.x] = total;
}
