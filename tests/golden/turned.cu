// pointwise_mul_add_stride_order_permute: 268435456 bytes read, 134217728 written
// ends here: T10 is an output; T12 is an output
//   T1 = fd.define_tensor(shape=[4096, 4096], contiguity=[True, True], dtype=DataType.Float)
//   T2 = fd.define_tensor(shape=[4096, 4096], contiguity=[True, True], dtype=DataType.Float)
//   T3 = fd.define_tensor(shape=[4096, 4096], contiguity=[True, True], dtype=DataType.Float)
//   T4 = fd.define_tensor(shape=[4096, 4096], dtype=DataType.Float)
//   S5 = fd.define_scalar(2.0, dtype=DataType.Double)
//   T6 = fd.ops.mul(T4, S5)
//   T7 = fd.ops.add(T1, T2)
//   T8 = fd.ops.mul(T7, T3)
//   T9 = fd.ops.add(T6, T8)
//   T10 = fd.ops.stride_order(T9, stride_order=[1, 0])
//   T11 = fd.ops.permute(T9, dims=[1, 0])
//   T12 = fd.ops.stride_order(T11, stride_order=[1, 0])
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

// Takes neighbouring columns of a line of a tile.
template <int Lanes, int Columns, int Pitch, typename T>
FUSER_DEVICE void take_line(T (&lanes)[Lanes], const T (&tile)[Columns][Pitch], int line,
                            int column) {
#pragma unroll
  for (int lane = 0; lane < Lanes; ++lane) lanes[lane] = tile[column + lane][line];
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

// Leaves the first `valid` lanes as neighbouring columns of a line of a tile.
template <int Lanes, int Columns, int Pitch, typename T, typename Index>
FUSER_DEVICE void keep_line(const T (&lanes)[Lanes], T (&tile)[Columns][Pitch], int line,
                            int column, Index valid) {
#pragma unroll
  for (int lane = 0; lane < Lanes; ++lane) {
    if (lane < valid) tile[column + lane][line] = lanes[lane];
  }
}

// Writes the first `valid` of N elements, all at once where valid >= N.
template <int N, typename T, typename Index>
FUSER_DEVICE void store_part(const T (&lanes)[N], T* at, Index valid) {
  if (valid >= N) {
    store_vector(lanes, at);
    return;
  }
#pragma unroll
  for (int lane = 0; lane < N; ++lane) {
    if (lane < valid) at[lane] = lanes[lane];
  }
}

// Writes a tile as `fill_tile` reads it.
template <int Threads, int Lanes, int Lines, int Columns, int Pitch, typename T, typename Index,
          typename Column>
FUSER_DEVICE void drain_tile(const T (&tile)[Columns][Pitch], Index first, Index lines,
                             Index columns, Column column) {
  constexpr int packs = Lines / Lanes;
  constexpr int rounds = (Columns * packs + Threads - 1) / Threads;
#pragma unroll
  for (int round = 0; round < rounds; ++round) {
    const int place = round * Threads + threadIdx.x;
    const int i = place / packs, line = place % packs * Lanes;
    if (i >= Columns || i >= columns || line >= lines) continue;
    T held[Lanes];
#pragma unroll
    for (int lane = 0; lane < Lanes; ++lane) {
      held[lane] = line + lane < lines ? tile[i][line + lane] : T();
    }
    store_part(held, column(first + i) + line, lines - line);
  }
}

extern "C" __global__ void __launch_bounds__(256)
pointwise_mul_add_stride_order_permute(const float* __restrict__ T1_in, const float* __restrict__ T2_in, const float* __restrict__ T3_in, const float* __restrict__ T4_in, float* __restrict__ T10_out, float* __restrict__ T12_out, const int32 n0, const int32 n1, const int32 T1_stride_1, const int32 T2_stride_1, const int32 T3_stride_1, const int32 T10_stride_1) {
  const int32 first_0 = int32(blockIdx.x) * 64;
  const int32 first_1 = int32(blockIdx.y) * 64;
  __shared__ float T8_tile[64][65];
  __shared__ float T10_tile[64][65];
  #pragma unroll
  for (int round = 0; round < 4; ++round) {
    const int place = round * 256 + threadIdx.x;
    const int column = place / 16, line = place % 16 * 4;
    const int32 i0 = first_0 + line, i1 = first_1 + column;
    if (i0 >= n0 || i1 >= n1) continue;
    float T8_column[4];
    float T1[4];
    load_vector(T1, T1_in + (i0 + i1 * T1_stride_1));
    float T2[4];
    load_vector(T2, T2_in + (i0 + i1 * T2_stride_1));
    float T3[4];
    load_vector(T3, T3_in + (i0 + i1 * T3_stride_1));
    #pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      const float T7 = T1[lane] + T2[lane];
      const float T8 = T7 * T3[lane];
      T8_column[lane] = T8;
    }
    #pragma unroll
    for (int lane = 0; lane < 4; ++lane) T8_tile[column][line + lane] = T8_column[lane];
  }
  __syncthreads();
  #pragma unroll
  for (int round = 0; round < 4; ++round) {
    const int place = round * 256 + threadIdx.x;
    const int line = place / 16, column = place % 16 * 4;
    const int32 i0 = first_0 + line, i1 = first_1 + column;
    if (i0 >= n0 || i1 >= n1) continue;
    float T8[4];
    take_line(T8, T8_tile, line, column);
    float T10_lanes[4];
    float T4[4];
    load_vector(T4, T4_in + (i0 * n1 + i1));
    float T12_lanes[4];
    #pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      const float T6 = T4[lane] * 2.0f;
      const float T9 = T6 + T8[lane];
      T10_lanes[lane] = T9;
      T12_lanes[lane] = T9;
    }
    store_vector(T12_lanes, T12_out + (i0 * n1 + i1));
    keep_line(T10_lanes, T10_tile, line, column, n1 - i1);
  }
  __syncthreads();
  drain_tile<256, 4, 64>(T10_tile, first_1, n0 - first_0, n1 - first_1, [&](int32 i1) { return T10_out + first_0 + i1 * T10_stride_1; });
}
