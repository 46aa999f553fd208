// rows_max_sub_exp_sum_div: 25165824 bytes read, 25165824 written
// ends here: T5 is an output
//   T0 = fd.define_tensor(shape=[8192, 768], contiguity=[True, True], dtype=DataType.Float)
//   T1 = fd.ops.max(T0, dims=[1], keepdim=True)
//   T2 = fd.ops.sub(T0, T1)
//   T3 = fd.ops.exp(T2)
//   T4 = fd.ops.sum(T3, dims=[1], keepdim=True)
//   T5 = fd.ops.div(T3, T4)
// Another type than int64, so that to a compiler no store to a tensor of those changes an index.
typedef long index64;
static_assert(sizeof(index64) == 8, "64 bits");

#define FUSER_DEVICE static inline __attribute__((always_inline, unused))

// Both numbers are read, whichever is chosen: g++ does not vectorize a parameter that is read under
// a condition. Written without ?:, which takes the address of one of two 16-bit floats.
template <class T>
FUSER_DEVICE T where(bool chosen, T x, T y) {
  T taken = y;
  if (chosen) taken = x;
  return taken;
}

template <class T>
FUSER_DEVICE T maximum(T x, T y) {
  const T larger = y > x ? y : x;
  return y != y ? y : larger;
}

// All lanes of an array as one, by halves: each half is as many vector operations as it has vectors.
// Without `simd`, loops are unrolled before anything makes vectors of them, and which lane holds the
// largest value becomes a branch that no processor foresees.
template <int count, class T, class Join>
static inline T join_halves(Join join, T* lanes) {
  if constexpr (count == 1) {
    return lanes[0];
  } else {
    #pragma omp simd
    for (int lane = 0; lane < count / 2; ++lane) {
      lanes[lane] = join(lanes[lane], lanes[lane + count / 2]);
    }
    return join_halves<count / 2>(join, lanes);
  }
}
// All lanes of some arrays as one.
template <int count, class T, class Join, class... Others>
static inline T join_lanes(Join join, T* lanes, const Others*... others) {
  #pragma omp simd
  for (int lane = 0; lane < count; ++lane) {
    ((lanes[lane] = join(lanes[lane], others[lane])), ...);
  }
  return join_halves<count>(join, lanes);
}

// Asks for what later rows read, into the second level.
template <int Count, class T>
FUSER_DEVICE void prefetch_lanes(const T* at) {
  for (unsigned int byte = 0; byte < Count * sizeof(T); byte += 64) {
    __builtin_prefetch(reinterpret_cast<const char*>(at) + byte, 0, 2);
  }
}

// (e^r - 1 - r) / r^2 for |r| <= ln(2)/2; error 3.1e-9 of e^r. By Estrin's scheme: a chain of three
// operations where Horner's has four, which is what loops over exponentials wait for.
FUSER_DEVICE float exp_polynomial(float r) {
  const float square = r * r;
  const float low = 0.49999994f + r * 0.166665211f, high = 0.0416682623f + r * 0.00836867094f;
  return low + square * (high + square * 0.00138209993f);
}

typedef int int32;

FUSER_DEVICE float float_of(int32 bits) { return __builtin_bit_cast(float, bits); }

typedef long long int64;

FUSER_DEVICE int32 bits_of(float x) { return __builtin_bit_cast(int32, x); }
FUSER_DEVICE int64 bits_of(double x) { return __builtin_bit_cast(int64, x); }

// x = n ln2 + r for x <= 0, ln2 as one number where it is multiplied exactly. The low bits of `sum`
// are n + 127, the exponent of 2^n; those of `most` are that of 1.
struct nonpositive_parts {
  int32 sum, most;
  float r;
};
FUSER_DEVICE nonpositive_parts nonpositive_parts_of(float x) {
  const float shifter = 12583039.0f;  // 1.5 2^23 + 127
  const float shifted = x * 1.44269504f + shifter;
  const float n = shifted - shifter;
#if defined(__FMA__)
  const float r = __builtin_fmaf(n, -0.693147182f, x);
#else
  const float r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
#endif
  return {bits_of(shifted), bits_of(shifter), r};
}

// e^x for x <= 0 and NaN. At most (1 + 0.05 |x|) ulp; 0 in place of results below 2^-126. Where
// contraction makes a difference from the largest value exceed 0, the scale stays 1: the result is
// near 1, as it should be.
FUSER_DEVICE float exp_nonpositive(float x) {
  const nonpositive_parts parts = nonpositive_parts_of(x);
  const float scale = float_of((parts.sum < parts.most ? parts.sum : parts.most) << 23);
  const float r = parts.r;
  return x < -87.33654f ? 0.0f : scale + scale * (r + r * r * exp_polynomial(r));
}

// Sixteen lanes. `fused` is one operation whatever contraction the kernel is compiled with.
#if defined(__AVX512F__) && defined(__AVX512DQ__) && !defined(__clang__)
#define FUSER_LANE_VECTORS
typedef float float_lanes __attribute__((vector_size(64), may_alias));
typedef int int_lanes __attribute__((vector_size(64), may_alias));
typedef float_lanes float_lanes_anywhere __attribute__((aligned(4)));

FUSER_DEVICE float_lanes lanes_at(const float* at) {
  return *reinterpret_cast<const float_lanes_anywhere*>(at);
}
FUSER_DEVICE float_lanes all_lanes(float x) { return x - float_lanes{}; }
FUSER_DEVICE int_lanes sign_of(float_lanes x) {
  return int_lanes(x) & int_lanes(all_lanes(-0.0f));
}
FUSER_DEVICE float_lanes fused(float_lanes x, float_lanes y, float_lanes z) {
  return __builtin_ia32_vfmaddps512_mask(x, y, z, 0xffff, 4);
}
// This keeps NaN in x.
FUSER_DEVICE float_lanes at_most(float high, float_lanes x) {
  return __builtin_ia32_minps512_mask(all_lanes(high), x, x, 0xffff, 4);
}
typedef unsigned short lane_set;
// Where x >= low, and NaN.
FUSER_DEVICE lane_set not_below(float low, float_lanes x) {
  return __builtin_ia32_cmpps512_mask(x, all_lanes(low), 21, 0xffff, 4);
}
// By the lowest four bits of each lane, or by five.
FUSER_DEVICE float_lanes looked_up(float_lanes which, const float (&table)[16]) {
  return __builtin_ia32_permvarsf512_mask(lanes_at(table), int_lanes(which), which, 0xffff);
}
FUSER_DEVICE float_lanes looked_up(float_lanes which, const float (&table)[32]) {
  const float_lanes low = lanes_at(table), high = lanes_at(table + 16);
  return __builtin_ia32_vpermt2varps512_mask(int_lanes(which), low, high, 0xffff);
}

// A polynomial in r, of which the lowest bits of `which` choose the coefficients.
template <int Terms>
FUSER_DEVICE float_lanes polynomial_by_table(float_lanes which, float_lanes r,
                                             const float (&table)[Terms][32]) {
  float_lanes value = looked_up(which, table[Terms - 1]);
#pragma GCC unroll 8
  for (int term = Terms - 2; term >= 0; --term) {
    value = fused(value, r, looked_up(which, table[term]));
  }
  return value;
}

// `function` is one of a number, and one of a vector where there are vectors.
template <int Count, class Function>
FUSER_DEVICE void in_lanes(float (&results)[Count], const float (&given)[Count],
                           Function function) {
  static_assert(Count % 16 == 0, "whole vectors");
#pragma GCC unroll 4
  for (int lane = 0; lane < Count; lane += 16) {
    *reinterpret_cast<float_lanes_anywhere*>(results + lane) = function(lanes_at(given + lane));
  }
}
#else
template <int Count, class Function>
FUSER_DEVICE void in_lanes(float (&results)[Count], const float (&given)[Count],
                           Function function) {
#pragma omp simd
  for (int lane = 0; lane < Count; ++lane) results[lane] = function(given[lane]);
}
#endif

#if defined(FUSER_LANE_VECTORS)
alignas(64) constexpr float powers_of_2[16] = {
    1.0f, 1.04427373f, 1.09050775f, 1.13878858f, 1.18920708f, 1.24185777f, 1.29683959f,
    1.35425556f, 1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f, 1.68179286f, 1.75625217f,
    1.8340081f, 1.91520655f};
// 2^n 2^(k/16) (1 + r slope), k in the low bits of `which`.
// In lanes that are not `done` it is 0.
FUSER_DEVICE float_lanes power_near(float_lanes which, float_lanes n, float_lanes r,
                                    float_lanes slope, lane_set done = 0xffff) {
  const float_lanes power = looked_up(which, powers_of_2);
  const float_lanes value = fused(power * r, slope, power);
  return __builtin_ia32_scalefps512_mask(value, n, float_lanes{}, done, 4);
}

// e^x for x up to 90, and NaN, ln2 in as many parts: 2^n 2^(k/16) e^r for |r| <= ln2 / 32, where
// (e^r - 1) / r is a polynomial; error of the fit 1.6e-9. It is 0 for x below `least`, as where
// something is masked, without scaling: results that underflow take some processors 100 cycles.
template <int Parts>
FUSER_DEVICE float_lanes exp_near(float_lanes x, float least) {
  const float_lanes shifter = all_lanes(786432.0f);  // 1.5 2^19: the sum counts sixteenths
  const float_lanes shifted = fused(x, all_lanes(1.44269502f), shifter);
  const float_lanes n = shifted - shifter;
  float_lanes r = fused(n, all_lanes(-0.693147182f), x);
  if constexpr (Parts == 2) r = fused(n, all_lanes(1.9046542e-9f), r);
  const float_lanes curve = fused(all_lanes(0.166667178f), r, all_lanes(0.500016153f));
  return power_near(shifted, n, r, fused(curve, r, all_lanes(1)), not_below(least, x));
}
#endif

// e^x for x <= 0 and NaN. At most (1 + 0.05 |x|) ulp: ln2 is one number, off by 1.9e-9. The
// exponentials of a softmax, of differences from the largest, add up to 1 at least. It is 0 in place
// of results below 2^-126.
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes exp_nonpositive(float_lanes x) {
  return exp_near<1>(x, -87.33654f);
}
#endif

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

// Copies less than twice as many bytes as `Most`: by the largest power of two that fits, from both
// ends, which meet or overlap.
template <int Most>
static inline void copy_part(void* to, const void* from, long long bytes) {
  if constexpr (Most > 0) {
    if (bytes < Most) return copy_part<Most / 2>(to, from, bytes);
    char head[Most], tail[Most];
    __builtin_memcpy(head, from, Most);
    __builtin_memcpy(tail, static_cast<const char*>(from) + bytes - Most, Most);
    __builtin_memcpy(to, head, Most);
    __builtin_memcpy(static_cast<char*>(to) + bytes - Most, tail, Most);
  }
}

// Stores elements `first` to `last` - 1 of a chunk, past the cache but for what is before the first
// and after the last vector that is aligned. No line is written both ways: that takes long. Ends of
// rows are stored so: it is not made a part of the loop.
template <class T, int Count>
__attribute__((noinline)) static void stream_some(T* __restrict to, const T (&from)[Count],
                                                  long long first, long long last) {
  constexpr int bytes = sizeof(stream_vector), width = bytes / sizeof(T);
  const long long ahead = (bytes - past_alignment(to + first)) % bytes / sizeof(T);
  const long long begin = first + ahead < last ? first + ahead : last;
  copy_part<bytes / 2>(to + first, from + first, (begin - first) * sizeof(T));
  long long i = begin;
  for (; i + width <= last; i += width) {
    stream(reinterpret_cast<stream_vector*>(to + i),
           *reinterpret_cast<const stream_unaligned*>(from + i));
  }
  copy_part<bytes / 2>(to + i, from + i, (last - i) * sizeof(T));
}

// Stores a chunk that was moved by so many elements to be in range: only what no other chunk has.
// Where nothing goes past the cache, the rest may be stored as well.
template <class T, int Count>
FUSER_DEVICE void stream_moved(T* __restrict to, const T (&from)[Count], long long moved,
                               bool past_cache) {
  if (moved == 0 || !past_cache) {
    stream_chunk(to, from, past_cache);
  } else {
    stream_some(to, from, moved < 0 ? -moved : 0, moved > 0 ? Count - moved : Count);
  }
}

// Orders stores that bypassed the cache before whatever another thread reads next.
static inline void stream_fence() {
#if defined(__SSE__)
  __builtin_ia32_sfence();
#endif
}

extern "C" void rows_max_sub_exp_sum_div(const float* __restrict T0_in, float* __restrict T5_out, const index64 n0, const index64 n1, const index64 T0_offset, const index64 asks_ahead, const index64 past_cache, const bool threaded) {
  #pragma omp parallel if (threaded)
  {
    #pragma omp for
    for (index64 i0 = 0; i0 < n0; ++i0) {
      float T3_row[n1];
      float T1_lanes[32];
      for (int lane = 0; lane < 32; ++lane) T1_lanes[lane] = -__builtin_inff();
      const auto sweep0 = [&](const index64 i1, const int lane, const bool repeated) __attribute__((always_inline)) {
        const float T0 = T0_in[i0 * n1 + i1];
        T1_lanes[lane] = where(T1_lanes[lane] > T0, T1_lanes[lane], T0);
      };
      index64 start0 = 0;
      for (; start0 + 32 <= n1; start0 += 32) {
        #pragma omp simd
        for (int lane = 0; lane < 32; ++lane) sweep0(start0 + lane, lane, false);
      }
      if (start0 < n1) {
        const int done = int(start0 + 32 - n1);
        #pragma omp simd
        for (int lane = 0; lane < 32; ++lane) sweep0(n1 - 32 + lane, lane, lane < done);
      }
      const float T1 = join_lanes<32>([](float x, float y) { return maximum(x, y); }, T1_lanes);
      float T4_lanes[32];
      for (int lane = 0; lane < 32; ++lane) T4_lanes[lane] = 0.0f;
      const auto round1 = [&](const index64 i1, const int done) __attribute__((always_inline)) {
        const index64 first = i1;
        if (asks_ahead) prefetch_lanes<32>(T0_in + i0 * n1 + i1 + T0_offset);
        float T3_given[32];
        float T3_held[32];
        #pragma omp simd
        for (int lane = 0; lane < 32; ++lane) {
          const index64 i1 = first + lane;
          const float T0 = T0_in[i0 * n1 + i1];
          const float T2 = T0 - T1;
          T3_given[lane] = T2;
        }
        in_lanes(T3_held, T3_given, [](auto x) { return exp_nonpositive(x); });
        #pragma omp simd
        for (int lane = 0; lane < 32; ++lane) {
          const index64 i1 = first + lane;
          const bool repeated = lane < done;
          const float T3 = T3_held[lane];
          T3_row[i1] = T3;
          T4_lanes[lane] = T4_lanes[lane] + where(repeated, 0.0f, T3);
        }
      };
      index64 start1 = 0;
      for (; start1 + 32 <= n1; start1 += 32) round1(start1, 0);
      if (start1 < n1) round1(n1 - 32, int(start1 + 32 - n1));
      const float T4 = join_lanes<32>([](float x, float y) { return x + y; }, T4_lanes);
      const float T4_reciprocal = 1 / T4;
      if (past_cache) {
        for (index64 chunk2 = -index64(past_alignment(T5_out + i0 * n1) / sizeof(float)); chunk2 < n1; chunk2 += 64) {
          const index64 i1 = chunk2 < 0 ? 0 : chunk2 < n1 - 64 ? chunk2 : n1 - 64;
          const index64 first = i1;
          const index64 moved = i1 - chunk2;
          float T5_lanes[64];
          #pragma omp simd
          for (int lane = 0; lane < 64; ++lane) {
            const index64 i1 = first + lane;
            const float T3 = T3_row[i1];
            const float T5 = T3 * T4_reciprocal;
            T5_lanes[lane] = T5;
          }
          stream_moved(T5_out + i0 * n1 + i1, T5_lanes, moved, past_cache);
        }
      }
      else {
        #pragma omp simd
        for (index64 i1 = 0; i1 < n1; ++i1) {
          const float T3 = T3_row[i1];
          const float T5 = T3 * T4_reciprocal;
          T5_out[i0 * n1 + i1] = T5;
        }
      }
    }
    stream_fence();
  }
}
