// rows_max_sub_exp_sum_div: 25165824 bytes read, 25165824 written
// ends here: T5 is an output
//   T0 = fd.define_tensor(shape=[8192, 768], contiguity=[True, True], dtype=DataType.Float)
//   T1 = fd.ops.max(T0, dims=[1], keepdim=True)
//   T2 = fd.ops.sub(T0, T1)
//   T3 = fd.ops.exp(T2)
//   T4 = fd.ops.sum(T3, dims=[1], keepdim=True)
//   T5 = fd.ops.div(T3, T4)
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

// NaN wins, from either side.
FUSER_DEVICE float maximum(float x, float y) {
#ifndef FUSER_EMULATOR
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
  return result;
#else
  return y > x || y != y ? y : x;
#endif
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

// 2^x, one instruction. At most 2 ulp, and 2^0 is 1; 0 in place of results below 2^-126.
FUSER_DEVICE float power_of_two(float x) {
#ifndef FUSER_EMULATOR
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return x < -126.0f ? 0.0f : __builtin_exp2f(x);
#endif
}

// e^x for x <= 0 and NaN; 0 in place of results below 2^-126. At most 2 + 1.23 |x| ulp: the product
// is rounded, and log2(e) is. Such powers are of differences from a row's largest value, and summed
// with e^0; of 1, none is off by more than 2.5 2^-24.
FUSER_DEVICE float exp_nonpositive(float x) { return power_of_two(x * 1.4426950408889634f); }

extern "C" __global__ void __launch_bounds__(128, 8)
rows_max_sub_exp_sum_div(const float* __restrict__ T0_in, float* __restrict__ T5_out, const int32 n0, const int32 n1) {
  const int thread = threadIdx.x;
  alignas(8) __shared__ unsigned char shared[32];
  for (int32 i0 = int32(blockIdx.x) * 4 + threadIdx.y; i0 < n0; i0 += gridDim.x * 4) {
    alignas(16) float T0_kept[8][4];
    #pragma unroll
    for (int round = 0; round < 8; ++round) {
      const int32 i1 = (round * 32 + thread) * 4;
      if (round >= 4 && i1 >= n1) continue;
      float T0[4];
      load_vector(T0, T0_in + (i0 * n1 + i1));
      store_vector(T0, T0_kept[round]);
    }
    float T1_part = -__int_as_float(0x7f800000);
    #pragma unroll
    for (int round = 0; round < 8; ++round) {
      const int32 i1 = (round * 32 + thread) * 4;
      if (round >= 4 && i1 >= n1) continue;
      float T0[4];
      load_vector(T0, T0_kept[round]);
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        T1_part = maximum(T1_part, T0[lane]);
      }
    }
    const float T1 = join_warp(T1_part, [](float x, float y) { return maximum(x, y); });
    float T4_part = 0.0f;
    #pragma unroll
    for (int round = 0; round < 8; ++round) {
      const int32 i1 = (round * 32 + thread) * 4;
      if (round >= 4 && i1 >= n1) continue;
      float T0[4];
      load_vector(T0, T0_kept[round]);
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        const float T2 = T0[lane] - T1;
        const float T3 = exp_nonpositive(T2);
        T4_part = T4_part + T3;
      }
    }
    const float T4 = join_warp(T4_part, [](float x, float y) { return x + y; });
    const float T4_reciprocal = 1 / T4;
    #pragma unroll
    for (int round = 0; round < 8; ++round) {
      const int32 i1 = (round * 32 + thread) * 4;
      if (round >= 4 && i1 >= n1) continue;
      float T0[4];
      load_vector(T0, T0_kept[round]);
      float T5_lanes[4];
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        const float T2 = T0[lane] - T1;
        const float T3 = exp_nonpositive(T2);
        const float T5 = T3 * T4_reciprocal;
        T5_lanes[lane] = T5;
      }
      store_vector(T5_lanes, T5_out + (i0 * n1 + i1));
    }
  }
}
