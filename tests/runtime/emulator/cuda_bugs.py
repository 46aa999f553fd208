"""Hand-written CUDA kernels with one mistake each. `HERE` marks the lines it is reported at."""

from __future__ import annotations

THREADS = 64
"""What the kernels are launched with: one block of so many, or more blocks."""

READ_BEFORE_WRITE = """
extern "C" __global__ void mirrored(const float* x, float* y) {
  __shared__ float s[64];
  const int t = threadIdx.x;
  s[t] = x[t];       // HERE
                     // the barrier is missing
  y[t] = s[63 - t];  // HERE
}"""

WRITE_BEFORE_READ = """
extern "C" __global__ void neighbour(const float* x, float* y) {
  __shared__ float s[64];
  const int t = threadIdx.x;
  s[t] = x[t];
  __syncthreads();
  const float next = t < 63 ? s[t + 1] : 0;  // HERE
                                             // the barrier is missing
  s[t] = 2 * x[t];                           // HERE
  __syncthreads();
  y[t] = next + s[63 - t];
}"""

REUSED_BUFFER = """
__device__ __forceinline__ float block_sum(float value) {
  __shared__ float parts[2];
  for (int by = 16; by > 0; by /= 2) value += __shfl_xor_sync(0xffffffffu, value, by);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;  // HERE
  __syncthreads();
  return parts[0] + parts[1];  // HERE
}
extern "C" __global__ void centred(const float* x, float* y) {
  const float mean = block_sum(x[threadIdx.x]) / 64;
                                             // the barrier is missing
  const float centre = x[threadIdx.x] - mean;
  y[threadIdx.x] = mean + block_sum(centre * centre);
}"""

UNWRITTEN_SHARED = """
extern "C" __global__ void unwritten(const float* x, float* y) {
  __shared__ float s[65];
  extern __shared__ double d[];
  s[threadIdx.x] = d[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x + 1] + (float)d[threadIdx.x];
}"""

DIVERGENT_SHUFFLE = """
extern "C" __global__ void divergent(const float* x, float* y) {
  float value = x[threadIdx.x];
  if (threadIdx.x < 16) {
    value += __shfl_down_sync(0xffffffffu, value, 8);  // HERE
  }
  __syncthreads();  // HERE
  y[threadIdx.x] = value;
}"""

SHUFFLE_FROM_EXITED_LANE = """
extern "C" __global__ void exited(const float* x, float* y) {
  if (threadIdx.x % 32 >= 16) return;
  const float value = x[threadIdx.x];
  y[threadIdx.x] =
      value + __shfl_down_sync(0xffffffffu, value, 8);  // HERE
}"""

SHUFFLE_OUTSIDE_OF_MASK = """
extern "C" __global__ void outside(const float* x, float* y) {
  const float value = x[threadIdx.x];
  if (threadIdx.x % 32 < 16) {
    y[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, value, 16);  // HERE
  }
}"""

CALLER_OUTSIDE_OF_MASK = """
extern "C" __global__ void incomplete(const float* x, float* y) {
  float value = x[threadIdx.x];
  for (int by = 8; by > 0; by /= 2) {
    value += __shfl_xor_sync(0x0000ffffu, value, by);  // HERE
  }
  y[threadIdx.x] = value;
}"""

EMPTY_MASK = """
extern "C" __global__ void empty(const float* x, float* y) {
  __syncwarp(0);  // HERE
  y[threadIdx.x] = x[threadIdx.x];
}"""

DIFFERENT_MASKS = """
extern "C" __global__ void masks(const float* x, float* y) {
  const unsigned int mask = threadIdx.x % 2 ? 0xffffffffu : 0x55555555u;
  const int any = __any_sync(mask, x[threadIdx.x] > 0);  // HERE
  __syncthreads();
  y[threadIdx.x] = any;
}"""

DIVERGENT_BARRIER = """
extern "C" __global__ void branches(const float* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x < 40) {
    __syncthreads();  // HERE
  } else {
    __syncthreads();  // HERE
  }
}"""

TRAP = """
extern "C" __global__ void trapped(const float* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x];
  if (blockIdx.x == 2 && threadIdx.x == 37) __trap();  // HERE
}"""

ASSERTION = """
extern "C" __global__ void asserted(const float* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x];
  assert(threadIdx.x != 5 || x[5] == 1000);  // HERE
  __syncthreads();
}"""

ENDLESS_WAIT = """
extern "C" __global__ void endless(const float* x, float* y) {
  while (atomicAdd(y, 0) == 0) __nanosleep(100);  // HERE
}"""

MISALIGNED_VECTOR = """
extern "C" __global__ void misaligned(const float* x, float* y) {
  if (threadIdx.x >= 15) return;
  const float4 value = *reinterpret_cast<const float4*>(x + 4 * threadIdx.x + 1);  // HERE
  y[threadIdx.x] = value.x + value.y + value.z + value.w;
}"""

LARGE_SHARED = """
extern "C" __global__ void large(const float* x, float* y) {
  __shared__ float s[12352];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[63 - threadIdx.x];
}"""

FIRST_BLOCK_IS_LAST = """
extern "C" __global__ void order(const float* x, float* y) {
  y[threadIdx.x] = threadIdx.x == 0 ? blockIdx.x : x[threadIdx.x];
}"""

# -- what only a sanitizer sees --------------------------------------------------------------------

PAST_THE_INPUT = """
extern "C" __global__ void past_input(const float* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x + 1];  // HERE
}"""

BEFORE_THE_INPUT = """
extern "C" __global__ void before_input(const float* x, float* y) {
  y[threadIdx.x] = x[(int)threadIdx.x - 1];  // HERE
}"""

PAST_THE_OUTPUT = """
extern "C" __global__ void past_output(const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i + 1] = x[i % 64];  // HERE
}"""

PAST_SHARED = """
extern "C" __global__ void past_shared(const float* x, float* y) {
  __shared__ float s[64];
  __shared__ float other[64];
  const int t = threadIdx.x;
  other[t] = 0;
  s[(t + x[0] > 0) * 64] = x[t];  // HERE
  __syncthreads();
  y[t] = s[0] + other[t];
}"""

PAST_SHARED_POINTER = """
extern "C" __global__ void past_pointer(const float* x, float* y) {
  __shared__ float s[64];
  __shared__ float other[64];
  const int t = threadIdx.x;
  float* volatile at = s;
  other[t] = 0;
  __syncthreads();
  at[t + 1] = x[t];  // HERE
  __syncthreads();
  y[t] = s[t] + other[t];
}"""

PAST_DYNAMIC_SHARED = """
extern "C" __global__ void past_dynamic(const float* x, float* y) {
  extern __shared__ char s[];
  const int t = threadIdx.x;
  s[t + 1] = t;  // HERE
  __syncthreads();
  y[t] = x[t] + s[t];
}"""

PAST_LOCAL = """
extern "C" __global__ void past_local(const float* x, float* y) {
  float values[8];
  for (int i = 0; i < 8; ++i) values[i] = x[i];
  y[threadIdx.x] = values[threadIdx.x / 7];  // HERE
}"""

LOST_UPDATES = """
extern "C" __global__ void lost(const float* x, float* y) {
  *y += x[threadIdx.x];  // HERE
}"""

BLOCKS_OVERLAP = """
extern "C" __global__ void overlap(const float* x, float* y) {
  y[threadIdx.x + blockIdx.x] = x[threadIdx.x];  // HERE
}"""

NO_FENCE = """
extern "C" __global__ void unfenced(const float* x, float* y) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    y[1 + blockIdx.x] = x[blockIdx.x];  // HERE
                                        // the fence is missing
    is_last = atomicAdd(y, 1.0f) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last || threadIdx.x != 0) return;
  float sum = 0;
  for (int i = 0; i < gridDim.x; ++i) {
    sum += y[1 + i];  // HERE
  }
  y[63] = sum;
}"""

NO_WARP_BARRIER = """
extern "C" __global__ void unsynchronized(const float* x, float* y) {
  __shared__ float s[64];
  const int t = threadIdx.x;
  s[t] = x[t];  // HERE
  float other = __shfl_xor_sync(0xffffffffu, s[t], 1);  // a shuffle orders no memory
  y[t] = s[t ^ 1] + other;  // HERE
}"""


def lines_of(source: str) -> list[int]:
    """The numbers of the lines that are marked."""
    lines = enumerate(source.splitlines(), start=1)
    return [number for number, line in lines if "// HERE" in line]


def name_of(source: str) -> str:
    """The kernel's name."""
    return source.partition("__global__ void ")[2].partition("(")[0]
