// rows_sub_mul_sum_truediv: 50400256 bytes read, 25171968 written
// ends here: T15 is an output; T17 is an output; T18 is an output
//   T0 = fd.define_tensor(shape=[8192, 768], contiguity=[True, True], dtype=DataType.Float)
//   T1 = fd.define_tensor(shape=[8192, 768], contiguity=[True, True], dtype=DataType.Float)
//   T2 = fd.define_tensor(shape=[8192, 1], contiguity=[True, None], dtype=DataType.Float)
//   T3 = fd.define_tensor(shape=[8192, 1], contiguity=[True, None], dtype=DataType.Float)
//   T7 = fd.define_tensor(shape=[1, 768], dtype=DataType.Float)
//   T5 = fd.ops.sub(T1, T2)
//   T6 = fd.ops.mul(T5, T3)
//   T8 = fd.ops.mul(T0, T7)
//   T9 = fd.ops.mul(T8, T6)
//   T19 = fd.ops.sum(T9, dims=[1], keepdim=True)
//   S20 = fd.define_scalar(768, dtype=DataType.Int)
//   T10 = fd.ops.truediv(T19, S20)
//   T21 = fd.ops.sum(T8, dims=[1], keepdim=True)
//   T11 = fd.ops.truediv(T21, S20)
//   T12 = fd.ops.sub(T8, T11)
//   T13 = fd.ops.mul(T6, T10)
//   T14 = fd.ops.sub(T12, T13)
//   T15 = fd.ops.mul(T14, T3)
//   T16 = fd.ops.mul(T0, T6)
//   T17 = fd.ops.sum(T16, dims=[0], keepdim=False)
//   T18 = fd.ops.sum(T0, dims=[0], keepdim=False)
typedef int int32;

#define FUSER_DEVICE static __device__ __forceinline__

// What one memory access moves. `may_alias`: packets overlay arrays of every element type.
template <int Bytes> struct packet;
template <> struct __attribute__((may_alias)) packet<1> { unsigned char x; };
template <> struct __attribute__((may_alias)) packet<2> { unsigned short x; };
template <> struct __attribute__((may_alias)) packet<4> { unsigned int x; };
template <> struct __attribute__((may_alias, aligned(8))) packet<8> { unsigned int x, y; };
template <> struct __attribute__((may_alias, aligned(16))) packet<16> {
  unsigned int x, y, z, w;
};

// memcpy of a size known at compile time: the optimizer makes register moves of it.
template <int Bytes>
FUSER_DEVICE void copy_bytes(void* to, const void* from) {
#ifndef FUSER_EMULATOR
  memcpy(to, from, Bytes);
#else
  __builtin_memcpy(to, from, Bytes);
#endif
}

// The lanes of a packet. Those of 16 bits are taken from words by shifts, which the compiler sees
// through: a bfloat16 is widened by one instruction, and lanes that are kept stay the words they
// were. Of a copy, it would extract each of them first.
template <int Bytes, typename T>
FUSER_DEVICE void unpack(T* lanes, packet<Bytes> moved) {
  if constexpr (sizeof(T) == 2 && Bytes >= 4) {
    unsigned int words[Bytes / 4];
    copy_bytes<Bytes>(words, &moved);
#pragma unroll
    for (int lane = 0; lane < Bytes / 2; ++lane) {
      const unsigned short bits = (unsigned short)(words[lane / 2] >> lane % 2 * 16);
      copy_bytes<2>(lanes + lane, &bits);
    }
  } else {
    copy_bytes<Bytes>(lanes, &moved);
  }
}

// Reads N elements by accesses of 16 bytes, or by one where they are fewer bytes than that.
// `at` is aligned to the access.
template <int N, typename T>
FUSER_DEVICE void load_vector(T (&lanes)[N], const T* at) {
  constexpr int bytes = N * sizeof(T) < 16 ? N * sizeof(T) : 16;
  static_assert(N * sizeof(T) % bytes == 0, "whole accesses");
#pragma unroll
  for (int i = 0; i < N * (int)sizeof(T) / bytes; ++i) {
    unpack(lanes + i * (bytes / (int)sizeof(T)), reinterpret_cast<const packet<bytes>*>(at)[i]);
  }
}

// A packet of lanes; see `unpack`.
template <int Bytes, typename T>
FUSER_DEVICE packet<Bytes> packed(const T* lanes) {
  packet<Bytes> moved;
  if constexpr (sizeof(T) == 2 && Bytes >= 4) {
    unsigned int words[Bytes / 4];
#pragma unroll
    for (int i = 0; i < Bytes / 4; ++i) {
      unsigned short low, high;
      copy_bytes<2>(&low, lanes + 2 * i);
      copy_bytes<2>(&high, lanes + 2 * i + 1);
      words[i] = low | (unsigned int)high << 16;
    }
    copy_bytes<Bytes>(&moved, words);
  } else {
    copy_bytes<Bytes>(&moved, lanes);
  }
  return moved;
}

// Writes N elements by accesses of 16 bytes, or by one where they are fewer bytes than that.
// `at` is aligned to the access.
template <int N, typename T>
FUSER_DEVICE void store_vector(const T (&lanes)[N], T* at) {
  constexpr int bytes = N * sizeof(T) < 16 ? N * sizeof(T) : 16;
  static_assert(N * sizeof(T) % bytes == 0, "whole accesses");
#pragma unroll
  for (int i = 0; i < N * (int)sizeof(T) / bytes; ++i) {
    reinterpret_cast<packet<bytes>*>(at)[i] = packed<bytes>(lanes + i * (bytes / (int)sizeof(T)));
  }
}

// The value of the lane whose number differs in `bits`; all lanes of the warp ask.
template <typename T>
FUSER_DEVICE T lane_across(T value, int bits) {
  if constexpr (sizeof(T) < 4) {
    return T(__shfl_xor_sync(0xffffffffu, int(value), bits));
  } else {
    return __shfl_xor_sync(0xffffffffu, value, bits);
  }
}

// The values of a warp's threads as one, in all of them.
template <typename T, typename Join>
FUSER_DEVICE T join_warp(T value, Join join) {
#pragma unroll
  for (int bits = 16; bits > 0; bits /= 2) value = join(value, lane_across(value, bits));
  return value;
}

// Waits for the threads of the block that have this threadIdx.y, so many `warps`.
template <int warps>
FUSER_DEVICE void meet_team() {
#ifndef FUSER_EMULATOR
  asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.y + 1), "n"(32 * warps) : "memory");
#else
  FUSER_MEET_TEAM(32 * warps);
#endif
}

// The values of the threads of a block that have one threadIdx.y as one, in all of them; of the
// others, none waits for these. `warps`, of each, is a power of two; `shared` has 8 bytes for each
// warp of the block. Threads leave together if it is used again before they meet elsewhere.
template <int warps, bool again, typename T, typename Join>
FUSER_DEVICE T join_team(T value, Join join, unsigned char* shared) {
  value = join_warp(value, join);
  if constexpr (warps > 1) {
    T* of_warp = reinterpret_cast<T*>(shared + 8 * warps * threadIdx.y);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    meet_team<warps>();
    value = of_warp[threadIdx.x % warps];
#pragma unroll
    for (int bits = warps / 2; bits > 0; bits /= 2) value = join(value, lane_across(value, bits));
    if constexpr (again) meet_team<warps>();
  }
  return value;
}

typedef long long int64;

// Whether this block is the last of `blocks` to come here; it sees what the others have written.
// `finished` counts them from 0, which it is again then, for the next launch.
FUSER_DEVICE bool last_to_finish(int* finished, int blocks, bool* is_last) {
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    __threadfence();  // for all: what a barrier has ordered before a fence, the fence orders, too
    *is_last = atomicAdd(finished, 1) == blocks - 1;
    if (*is_last) {
      *finished = 0;
      __threadfence();  // what it reads now is not what was there before
    }
  }
  __syncthreads();
  return *is_last;
}

// What another block has written; no cache of this multiprocessor answers.
template <typename T>
FUSER_DEVICE T part_at(const T* at) {
  if constexpr (sizeof(T) >= 4) {
    return __ldcg(at);
  } else {
    return *static_cast<const volatile T*>(at);
  }
}

// N neighbours that another block has written, by one access where they are 8 or 16 bytes, to which
// `at` is aligned then.
template <int N, typename T>
FUSER_DEVICE void parts_at(T (&lanes)[N], const T* at) {
#ifndef FUSER_EMULATOR
  if constexpr (N * sizeof(T) == 16) {
    const uint4 moved = __ldcg(reinterpret_cast<const uint4*>(at));
    copy_bytes<16>(lanes, &moved);
    return;
  }
  if constexpr (N * sizeof(T) == 8) {
    const uint2 moved = __ldcg(reinterpret_cast<const uint2*>(at));
    copy_bytes<8>(lanes, &moved);
    return;
  }
#endif
#pragma unroll
  for (int lane = 0; lane < N; ++lane) lanes[lane] = part_at(at + lane);
}

extern "C" __global__ void __launch_bounds__(512, 2)
rows_sub_mul_sum_truediv(const float* __restrict__ T0_in, const float* __restrict__ T1_in, const float* __restrict__ T2_in, const float* __restrict__ T3_in, const float* __restrict__ T7_in, float* __restrict__ T15_out, float* __restrict__ T17_out, float* __restrict__ T18_out, float* T17_parts, float* T18_parts, int32* finished, const int32 n0, const int32 n1, const int32 T11_count, const int32 T10_count, const int32 T17_slots, const int32 T18_slots) {
  const int thread = threadIdx.x;
  alignas(8) __shared__ unsigned char shared[256];
  float T17_part[2][4];
  #pragma unroll
  for (int i = 0; i < 8; ++i) T17_part[i / 4][i % 4] = 0.0f;
  float T18_part[2][4];
  #pragma unroll
  for (int i = 0; i < 8; ++i) T18_part[i / 4][i % 4] = 0.0f;
  for (int32 i0 = int32(threadIdx.y) * gridDim.x + blockIdx.x; i0 < n0; i0 += gridDim.x * 4) {
    alignas(16) float T0_kept[2][4];
    alignas(16) float T1_kept[2][4];
    #pragma unroll
    for (int round = 0; round < 2; ++round) {
      const int32 i1 = (round * 128 + thread) * 4;
      if (i1 >= n1) continue;
      float T0[4];
      load_vector(T0, T0_in + (i1 + i0 * n1));
      store_vector(T0, T0_kept[round]);
      float T1[4];
      load_vector(T1, T1_in + (i1 + i0 * n1));
      store_vector(T1, T1_kept[round]);
    }
    const float T2 = T2_in[i0];
    const float T3 = T3_in[i0];
    float T19_part = 0.0f;
    float T21_part = 0.0f;
    #pragma unroll
    for (int round = 0; round < 2; ++round) {
      const int32 i1 = (round * 128 + thread) * 4;
      if (i1 >= n1) continue;
      float T0[4];
      load_vector(T0, T0_kept[round]);
      float T7[4];
      load_vector(T7, T7_in + i1);
      float T1[4];
      load_vector(T1, T1_kept[round]);
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        const float T8 = T0[lane] * T7[lane];
        const float T5 = T1[lane] - T2;
        const float T6 = T5 * T3;
        const float T9 = T8 * T6;
        const float T16 = T0[lane] * T6;
        T19_part = T19_part + T9;
        T21_part = T21_part + T8;
        T17_part[round][lane] = T17_part[round][lane] + T16;
        T18_part[round][lane] = T18_part[round][lane] + T0[lane];
      }
    }
    const float T19 = join_team<4, false>(T19_part, [](float x, float y) { return x + y; }, shared + 0);
    const float T21 = join_team<4, false>(T21_part, [](float x, float y) { return x + y; }, shared + 128);
    const float T11 = T21 / float(int64(T11_count));
    const float T10 = T19 / float(int64(T10_count));
    #pragma unroll
    for (int round = 0; round < 2; ++round) {
      const int32 i1 = (round * 128 + thread) * 4;
      if (i1 >= n1) continue;
      float T0[4];
      load_vector(T0, T0_kept[round]);
      float T7[4];
      load_vector(T7, T7_in + i1);
      float T1[4];
      load_vector(T1, T1_kept[round]);
      float T15_lanes[4];
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        const float T8 = T0[lane] * T7[lane];
        const float T12 = T8 - T11;
        const float T5 = T1[lane] - T2;
        const float T6 = T5 * T3;
        const float T13 = T6 * T10;
        const float T14 = T12 - T13;
        const float T15 = T14 * T3;
        T15_lanes[lane] = T15;
      }
      store_vector(T15_lanes, T15_out + (i1 + i0 * n1));
    }
  }
  __syncthreads();
  alignas(16) __shared__ float T17_of_block[1024];
  alignas(16) __shared__ float T18_of_block[1024];
  for (int team = 0; team < 4; ++team) {
    if (threadIdx.y == team) {
      #pragma unroll
      for (int round = 0; round < 2; ++round) {
        const int32 i1 = (round * 128 + thread) * 4;
        if (i1 >= n1) continue;
        if (team > 0) {
          float T17_before[4];
          load_vector(T17_before, &T17_of_block[i1]);
          #pragma unroll
          for (int lane = 0; lane < 4; ++lane) T17_part[round][lane] = T17_before[lane] + T17_part[round][lane];
        }
        store_vector(T17_part[round], &T17_of_block[i1]);
        if (team > 0) {
          float T18_before[4];
          load_vector(T18_before, &T18_of_block[i1]);
          #pragma unroll
          for (int lane = 0; lane < 4; ++lane) T18_part[round][lane] = T18_before[lane] + T18_part[round][lane];
        }
        store_vector(T18_part[round], &T18_of_block[i1]);
      }
    }
    __syncthreads();
  }
  for (int32 slot = threadIdx.y * 128 + thread; slot < T17_slots; slot += 512) (T17_parts + int32(blockIdx.x) * T17_slots)[slot] = T17_of_block[slot];
  for (int32 slot = threadIdx.y * 128 + thread; slot < T18_slots; slot += 512) (T18_parts + int32(blockIdx.x) * T18_slots)[slot] = T18_of_block[slot];
  const int block_thread = threadIdx.y * 128 + threadIdx.x;
  const int group = blockIdx.x / 16 * 16;
  const int groups = (gridDim.x + 15) / 16;
  const int group_end = group + 16 < gridDim.x ? group + 16 : gridDim.x;
  __shared__ bool is_last;
  if (!last_to_finish(finished + blockIdx.x / 16, group_end - group, &is_last)) return;
  for (int32 slot = block_thread * 2; slot < T17_slots; slot += 1024) {
    float T17[2] = {0.0f, 0.0f};
    float T18[2] = {0.0f, 0.0f};
    #pragma unroll 8
    for (int part = group; part < group_end; ++part) {
      float T17_given[2];
      parts_at(T17_given, T17_parts + int32(part) * T17_slots + slot);
      float T18_given[2];
      parts_at(T18_given, T18_parts + int32(part) * T18_slots + slot);
      #pragma unroll
      for (int lane = 0; lane < 2; ++lane) {
        T17[lane] = T17[lane] + T17_given[lane];
        T18[lane] = T18[lane] + T18_given[lane];
      }
    }
    store_vector(T17, T17_parts + int32(group) * T17_slots + slot);
    store_vector(T18, T18_parts + int32(group) * T18_slots + slot);
  }
  if (!last_to_finish(finished + groups, groups, &is_last)) return;
  for (int32 slot = block_thread * 2; slot < T17_slots; slot += 1024) {
    float T17[2] = {0.0f, 0.0f};
    float T18[2] = {0.0f, 0.0f};
    #pragma unroll 8
    for (int part = 0; part < gridDim.x; part += 16) {
      float T17_given[2];
      parts_at(T17_given, T17_parts + int32(part) * T17_slots + slot);
      float T18_given[2];
      parts_at(T18_given, T18_parts + int32(part) * T18_slots + slot);
      #pragma unroll
      for (int lane = 0; lane < 2; ++lane) {
        T17[lane] = T17[lane] + T17_given[lane];
        T18[lane] = T18[lane] + T18_given[lane];
      }
    }
    store_vector(T17, T17_parts + int32(0) * T17_slots + slot);
    store_vector(T18, T18_parts + int32(0) * T18_slots + slot);
  }
  __syncthreads();
  for (int32 i1 = block_thread; i1 < n1; i1 += 512) {
    const float T17 = part_at(T17_parts + i1);
    const float T18 = part_at(T18_parts + i1);
    T17_out[i1] = T17;
    T18_out[i1] = T18;
  }
}
