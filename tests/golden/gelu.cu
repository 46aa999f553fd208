// pointwise_mul_erf_add: 100663296 bytes read, 100663296 written
// ends here: T9 leaves through reshape, metadata
//   T1 = fd.define_tensor(shape=[64, 128, 3072], dtype=DataType.Float)
//   S2 = fd.define_scalar(0.5, dtype=DataType.Double)
//   T3 = fd.ops.mul(T1, S2)
//   S4 = fd.define_scalar(0.707107, dtype=DataType.Double)
//   T5 = fd.ops.mul(T1, S4)
//   T6 = fd.ops.erf(T5)
//   S7 = fd.define_scalar(1.0, dtype=DataType.Double)
//   T8 = fd.ops.add(T6, S7)
//   T9 = fd.ops.mul(T3, T8)
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

// 1 + erf(x), without a branch or a choice: what it is short of 0, or of 2, is erfc(|x|), a power of
// two whose exponent is a polynomial, fitted to 1.6e-8 of the power up to 4 and below it from there
// on. Off by 1.2 2^-23 at most, and by another 2^-23 where the power is off by 2 ulp.
FUSER_DEVICE float erf_plus_one(float x) {
  const float size = fabsf(x);
  float ratio = fmaf(size, -4.5358572e-05f, 4.4550744e-04f);
  ratio = fmaf(ratio, size, -1.4894409e-03f);
  ratio = fmaf(ratio, size, -7.7463069e-04f);
  ratio = fmaf(ratio, size, 2.8253682e-02f);
  ratio = fmaf(ratio, size, -1.4848162e-01f);
  ratio = fmaf(ratio, size, -9.1841638e-01f);
  ratio = fmaf(ratio, size, -1.6279086f);
  const float side = copysignf(1.0f, x);
  return fmaf(-side, power_of_two(ratio * size), 1.0f + side);
}

extern "C" __global__ void __launch_bounds__(256, 8)
pointwise_mul_erf_add(const float* __restrict__ T1_in, float* __restrict__ T9_out, const int32 n0) {
  const int32 thread = int32(blockIdx.x) * 512 + threadIdx.x;
  alignas(16) float T1_kept[2][4];
  #pragma unroll
  for (int round = 0; round < 2; ++round) {
    const int32 i0 = (round * 256 + thread) * 4;
    if (i0 >= n0) continue;
    float T1[4];
    load_vector(T1, T1_in + i0);
    store_vector(T1, T1_kept[round]);
  }
  #pragma unroll
  for (int round = 0; round < 2; ++round) {
    const int32 i0 = (round * 256 + thread) * 4;
    if (i0 >= n0) continue;
    float T1[4];
    load_vector(T1, T1_kept[round]);
    float T9_lanes[4];
    #pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      const float T3 = T1[lane] * 0.5f;
      const float T5 = T1[lane] * 0.707107f;
      const float T8 = erf_plus_one(T5);
      const float T9 = T3 * T8;
      T9_lanes[lane] = T9;
    }
    store_vector(T9_lanes, T9_out + i0);
  }
}
