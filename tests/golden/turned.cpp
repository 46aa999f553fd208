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
// Another type than int64, so that to a compiler no store to a tensor of those changes an index.
typedef long index64;
static_assert(sizeof(index64) == 8, "64 bits");

#define FUSER_DEVICE static inline __attribute__((always_inline, unused))

// Asks for what later rows read, into the second level.
template <int Count, class T>
FUSER_DEVICE void prefetch_lanes(const T* at) {
  for (unsigned int byte = 0; byte < Count * sizeof(T); byte += 64) {
    __builtin_prefetch(reinterpret_cast<const char*>(at) + byte, 0, 2);
  }
}

// Turns a block of Side vectors of as many words: its halves change places across, then theirs.
template <int Bytes> struct word;
template <> struct word<1> { typedef unsigned char type; };
template <> struct word<2> { typedef unsigned short type; };
template <> struct word<4> { typedef unsigned int type; };
template <> struct word<8> { typedef unsigned long long type; };

template <class Word, int Side> struct words {
  typedef Word vector __attribute__((vector_size(Side * sizeof(Word)), may_alias));
  typedef vector unaligned __attribute__((aligned(sizeof(Word))));
};

template <int Side, class Vector, class Which>
static inline Vector pick(Vector low, Vector high, Which which) {
#if defined(__clang__)
  Vector picked;
  for (int i = 0; i < Side; ++i) {
    picked[i] = which[i] < Side ? low[which[i]] : high[which[i] - Side];
  }
  return picked;
#else
  return __builtin_shuffle(low, high, which);
#endif
}

// Of each two groups of Size bytes, one of `low` changes places with one of `high`. Groups are single
// words of their size: compilers know no short instruction for several that stay together. Below
// four bytes they are shifted, since shuffles take longer.
template <int Size, class Vector>
static inline __attribute__((always_inline)) void exchange_groups(Vector& low, Vector& high) {
  if constexpr (Size < 4) {
    typedef typename word<2 * Size>::type Pair;
    typedef Pair Pairs __attribute__((vector_size(sizeof(Vector)), may_alias));
    constexpr Pair first_of_pair = Pair((1u << (8 * Size)) - 1);
    const Pairs first = Pairs(low), second = Pairs(high);
    low = Vector((first & first_of_pair) | (second << (8 * Size)));
    high = Vector((first >> (8 * Size)) | (second & Pair(~first_of_pair)));
  } else {
    constexpr int bytes = Size < 8 ? Size : 8, side = sizeof(Vector) / bytes, apart = Size / bytes;
    typedef typename words<typename word<bytes>::type, side>::vector Groups;
    Groups even, odd;
    for (int i = 0; i < side; ++i) {
      even[i] = i & apart ? side + i - apart : i;
      odd[i] = i & apart ? side + i : i + apart;
    }
    const Groups first = Groups(low), second = Groups(high);
    low = Vector(pick<side>(first, second, even));
    high = Vector(pick<side>(first, second, odd));
  }
}

template <int Half, int Side, class Vector>
static inline __attribute__((always_inline)) void turn_block(Vector (&rows)[Side]) {
  if constexpr (Half > 0) {
    for (int i = 0; i < Side; ++i) {
      if (i & Half) continue;
      exchange_groups<Half * sizeof(Vector) / Side>(rows[i], rows[i + Half]);
    }
    turn_block<Half / 2>(rows);
  }
}

// One store that bypasses the cache, of as many bytes as a vector register holds.
#if defined(__AVX512F__)
typedef float stream_vector __attribute__((vector_size(64), may_alias));
#elif defined(__AVX__)
typedef float stream_vector __attribute__((vector_size(32), may_alias));
#else
typedef float stream_vector __attribute__((vector_size(16), may_alias));
#endif
typedef stream_vector stream_unaligned __attribute__((aligned(1)));

static inline void stream(stream_vector* to, stream_vector moved) {
#if defined(__clang__)
  __builtin_nontemporal_store(moved, to);
#elif defined(__AVX512F__)
  __builtin_ia32_movntps512(reinterpret_cast<float*>(to), moved);
#elif defined(__AVX__)
  __builtin_ia32_movntps256(reinterpret_cast<float*>(to), moved);
#elif defined(__SSE__)
  __builtin_ia32_movntps(reinterpret_cast<float*>(to), moved);
#else
  *to = moved;
#endif
}

static inline unsigned long long past_alignment(const void* at) {
  return reinterpret_cast<unsigned long long>(at) % sizeof(stream_vector);
}

// The widest block of a tile that registers hold, in words of an element's size: a power of two, 1 if
// none does.
template <class T, int Lines, int Columns>
constexpr int block_side() {
  constexpr int lanes = sizeof(stream_vector) / sizeof(T);
  constexpr int held = lanes < 16 ? lanes : 16;
  constexpr int shorter = Lines < Columns ? Lines : Columns;
  int side = sizeof(T) > 8 ? 1 : held;
  while (side > shorter) side /= 2;
  return side;
}

// Reads a tile of which memory holds columns: `column` gives the address of each, from `first` on.
// Of fewer columns than there is room for, the last block is moved back to end with them, and so is
// the last one of lines that are no whole blocks. It asks for what the next tile reads, whose lines
// come after these: processors follow fewer columns than a tile has.
template <class T, int Lines, int Columns, class Index, class Column>
static inline void fill_tile(T (&tile)[Lines][Columns], Index first, Column column,
                             int count = Columns) {
  constexpr int side = block_side<T, Lines, Columns>();
  if constexpr (side == 1) {
    for (int i = 0; i < count; ++i) {
      const T* from = column(first + i);
      for (int line = 0; line < Lines; ++line) tile[line][i] = from[line];
    }
  } else {
    typedef words<typename word<sizeof(T)>::type, side> block;
    for (int block_at = 0; block_at < count; block_at += side) {
      const int i = block_at < count - side ? block_at : count - side;
      for (int line_at = 0; line_at < Lines; line_at += side) {
        const int line = Lines % side == 0 || line_at < Lines - side ? line_at : Lines - side;
        typename block::vector rows[side];
        for (int k = 0; k < side; ++k) {
          const T* from = column(first + i + k) + line;
          rows[k] = *reinterpret_cast<const typename block::unaligned*>(from);
          if (line * sizeof(T) % 64 == 0) __builtin_prefetch(from + Lines, 0, 2);
        }
        turn_block<side / 2>(rows);
        for (int k = 0; k < side; ++k) {
          *reinterpret_cast<typename block::unaligned*>(&tile[line + k][i]) = rows[k];
        }
      }
    }
  }
}

// Stores a chunk that was computed in registers, past the cache where its place is aligned.
template <class T, int Count>
static inline void stream_chunk(T* __restrict to, const T (&from)[Count], bool past_cache = true) {
  constexpr int width = sizeof(stream_vector) / sizeof(T);
  static_assert(Count % width == 0, "whole vectors");
  if (past_cache && past_alignment(to) == 0) {
    for (int i = 0; i < Count; i += width) {
      stream(reinterpret_cast<stream_vector*>(to + i),
             *reinterpret_cast<const stream_unaligned*>(from + i));
    }
  } else {
    for (int i = 0; i < Count; ++i) to[i] = from[i];
  }
}

// Writes a tile as `fill_tile` reads it, past the cache where a vector's place is aligned.
template <bool PastCache, class T, int Lines, int Columns, class Index, class Column>
static inline void drain_tile(const T (&tile)[Lines][Columns], Index first, Column column,
                              int count = Columns) {
  constexpr int side = block_side<T, Lines, Columns>();
  if constexpr (side == 1) {
    for (int i = 0; i < count; ++i) {
      T* to = column(first + i);
      for (int line = 0; line < Lines; ++line) to[line] = tile[line][i];
    }
  } else {
    typedef words<typename word<sizeof(T)>::type, side> block;
    constexpr bool whole = sizeof(typename block::vector) == sizeof(stream_vector);
    for (int block_at = 0; block_at < count; block_at += side) {
      const int i = block_at < count - side ? block_at : count - side;
      for (int line_at = 0; line_at < Lines; line_at += side) {
        const int line = Lines % side == 0 || line_at < Lines - side ? line_at : Lines - side;
        typename block::vector rows[side];
        for (int k = 0; k < side; ++k) {
          rows[k] = *reinterpret_cast<const typename block::unaligned*>(&tile[line + k][i]);
        }
        turn_block<side / 2>(rows);
        for (int k = 0; k < side; ++k) {
          T* to = column(first + i + k) + line;
          if constexpr (PastCache && whole) {
            if (past_alignment(to) == 0) {
              stream(reinterpret_cast<stream_vector*>(to), stream_vector(rows[k]));
              continue;
            }
          }
          *reinterpret_cast<typename block::unaligned*>(to) = rows[k];
        }
      }
    }
  }
}

// Orders stores that bypassed the cache before whatever another thread reads next.
static inline void stream_fence() {
#if defined(__SSE__)
  __builtin_ia32_sfence();
#endif
}

extern "C" void pointwise_mul_add_stride_order_permute(const float* __restrict T1_in, const float* __restrict T2_in, const float* __restrict T3_in, const float* __restrict T4_in, float* __restrict T10_out, float* __restrict T12_out, const index64 n1, const index64 tiles_1, const index64 n0, const index64 tiles_0, const index64 T1_stride_1, const index64 T1_offset, const index64 T2_stride_1, const index64 T2_offset, const index64 T3_stride_1, const index64 T3_offset, const index64 T10_stride_1, const bool threaded) {
  #pragma omp parallel if (threaded)
  {
    #pragma omp for collapse(2)
    for (index64 tile_1 = 0; tile_1 < tiles_1; ++tile_1) {
      for (index64 tile_0 = 0; tile_0 < tiles_0; ++tile_0) {
        const index64 first_1 = tile_1 * 64 < n1 - 64 ? tile_1 * 64 : n1 - 64;
        const index64 first_0 = tile_0 * 64 < n0 - 64 ? tile_0 * 64 : n0 - 64;
        for (int line = 0; line < 64; ++line) {
          const index64 i0 = first_0 + line, i1 = first_1;
          prefetch_lanes<64>(T4_in + i0 * n1 + i1);
        }
        alignas(64) float T8_tile[64][64];
        alignas(64) float T10_tile[64][64];
        alignas(64) float T8_columns[64][64];
        for (int column = 0; column < 64; ++column) {
          const index64 i0 = first_0, i1 = first_1 + column;
          float T8_column[64];
          prefetch_lanes<64>(T1_in + i0 + i1 * T1_stride_1 + T1_offset);
          prefetch_lanes<64>(T2_in + i0 + i1 * T2_stride_1 + T2_offset);
          prefetch_lanes<64>(T3_in + i0 + i1 * T3_stride_1 + T3_offset);
          #pragma omp simd
          for (int lane = 0; lane < 64; ++lane) {
            const float T1 = T1_in[i0 + lane + i1 * T1_stride_1];
            const float T2 = T2_in[i0 + lane + i1 * T2_stride_1];
            const float T3 = T3_in[i0 + lane + i1 * T3_stride_1];
            const float T7 = T1 + T2;
            const float T8 = T7 * T3;
            T8_column[lane] = T8;
          }
          for (int lane = 0; lane < 64; ++lane) T8_columns[column][lane] = T8_column[lane];
        }
        fill_tile(T8_tile, 0, [&](int column) { return T8_columns[column]; });
        for (int line = 0; line < 64; ++line) {
          const index64 i0 = first_0 + line, i1 = first_1;
          const float* const T8 = T8_tile[line];
          float T10_lanes[64];
          float T12_lanes[64];
          #pragma omp simd
          for (int lane = 0; lane < 64; ++lane) {
            const float T4 = T4_in[i0 * n1 + i1 + lane];
            const float T6 = T4 * 2.0f;
            const float T9 = T6 + T8[lane];
            T10_lanes[lane] = T9;
            T12_lanes[lane] = T9;
          }
          stream_chunk(T12_out + i0 * n1 + i1, T12_lanes);
          for (int lane = 0; lane < 64; ++lane) T10_tile[line][lane] = T10_lanes[lane];
        }
        drain_tile<true>(T10_tile, first_1, [&](index64 i1) { return T10_out + first_0 + i1 * T10_stride_1; });
      }
    }
    stream_fence();
  }
}
