// pointwise_set: 25165824 bytes read, 25165824 written
// ends here: T3 leaves through reshape, metadata
//   T2 = fd.define_tensor(shape=[64, 128, 12, 64], dtype=DataType.Float)
//   T3 = fd.ops.set(T2)
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

extern "C" __global__ void __launch_bounds__(256)
pointwise_set(const float* __restrict__ T2_in, float* __restrict__ T3_out, const int32 n3, const int32 n2, const int32 n1, const int32 T2_stride_1, const int32 T2_stride_2) {
  const int32 i3 = (int32(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  const int32 i2 = int32(blockIdx.y) * blockDim.y + threadIdx.y;
  unsigned int tile = blockIdx.z;
  const int32 i1 = tile % n1; tile /= n1;
  const int32 i0 = tile;
  if (i2 >= n2 || i3 >= n3) return;
  float T2[4];
  load_vector(T2, T2_in + (i0 * n1 * n2 * n3 + i1 * T2_stride_1 + i2 * T2_stride_2 + i3));
  float T3_lanes[4];
  #pragma unroll
  for (int lane = 0; lane < 4; ++lane) {
    T3_lanes[lane] = T2[lane];
  }
  store_vector(T3_lanes, T3_out + (i0 * n1 * n2 * n3 + i1 * n2 * n3 + i2 * n3 + i3));
}
