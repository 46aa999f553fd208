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
// Another type than int64, so that to a compiler no store to a tensor of those changes an index.
typedef long index64;
static_assert(sizeof(index64) == 8, "64 bits");

#define FUSER_DEVICE static inline __attribute__((always_inline, unused))

// Asks for what is read soon, a page further on: processors look ahead by themselves within a page.
// (g++ drops calls of functions that only prefetch, unless they are inlined before it looks.)
FUSER_DEVICE void prefetch_line(const void* now) {
  __builtin_prefetch(static_cast<const char*>(now) + 4096, 0, 2);
}

// Asks for what the chunks after this one read.
template <int Count, class T>
FUSER_DEVICE void prefetch_ahead(const T* at) {
  const char* now = reinterpret_cast<const char*>(at);
  for (unsigned int line = 0; line < Count * sizeof(T); line += 64) prefetch_line(now + line);
}

// c0 + c1 x + c2 x^2 + ..., by Horner's scheme, in the type of x.
template <class T>
FUSER_DEVICE T polynomial(T, T c0) {
  return c0;
}
template <class T, class... Rest>
FUSER_DEVICE T polynomial(T x, T c0, Rest... rest) {
  return c0 + x * polynomial(x, rest...);
}

// At most 6.3 ulp, 3.8e-7 absolute; exactly 1 from 4.1 on.
// x P(x^2) / Q(x^2), fitted to 1.9e-8. All coefficients are positive, so nothing cancels; the one
// division takes half the time of a second branch with an exponential.
FUSER_DEVICE float erf(float x) {
  float a = x > 4.1f ? 4.1f : x;
  a = a < -4.1f ? -4.1f : a;
  const float t = a * a;
  const float above = polynomial(t, 1.12837915f, 0.190406191f, 0.0527486957f, 0.00376560831f,
                                 0.000284883055f, 2.05009561e-6f);
  const float below = polynomial(t, 1.0f, 0.502075834f, 0.114109006f, 0.014969198f,
                                 0.00116253445f, 3.80918202e-5f);
  const float value = a * (above / below);
  const float capped = value > 1.0f ? 1.0f : value;
  return capped < -1.0f ? -1.0f : capped;
}

FUSER_DEVICE float normal_cdf(float x) { return 0.5f + 0.5f * erf(x * 0.70710677f); }

FUSER_DEVICE float gelu(float x) { return x * normal_cdf(x); }

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

// What the normal distribution has above a, from 0 to 7.75, of which a table has polynomials near
// 0, 1/4, 1/2, ... In the end there is none any more.
#if defined(FUSER_LANE_VECTORS)
template <int Terms>
FUSER_DEVICE float_lanes normal_tail(float_lanes a, const float (&table)[Terms][32]) {
  const float_lanes which = a + all_lanes(12582912.0f / 4);  // the sum's low bits are the entry
  return polynomial_by_table(which, __builtin_ia32_reduceps512_mask(a, 2 << 4, a, 0xffff), table);
}

// Of NaN, NaN.
template <int Terms>
FUSER_DEVICE float_lanes normal_below(float_lanes x, const float (&table)[Terms][32]) {
  const float_lanes size = float_lanes(int_lanes(x) & 0x7fffffff);
  const float_lanes tail = normal_tail(at_most(7.75f, size), table);
  return x > 0 ? 1 - tail : tail;
}

// x times what is below it. The smaller of |x| and 7.75 is one instruction, for which NaN is larger.
template <int Terms>
FUSER_DEVICE float_lanes gelu_by_table(float_lanes x, const float (&table)[Terms][32]) {
  const int smaller_size = 0x0a;
  const float_lanes a =
      __builtin_ia32_rangeps512_mask(x, all_lanes(7.75f), smaller_size, x, 0xffff, 4);
  const float_lanes tail = normal_tail(a, table);
  return x * (x > 0 ? 1 - tail : tail);
}
#endif

#if defined(FUSER_LANE_VECTORS)
alignas(64) constexpr float tail_table[5][32] = {
    {0.5f, 0.40129367f, 0.30853754f, 0.22662735f, 0.15865526f, 0.10564978f, 0.0668072f,
     0.04005916f, 0.022750134f, 0.012224473f, 0.006209665f, 0.0029797624f, 0.0013498972f,
     0.00057702436f, 0.00023262862f, 8.8417e-05f, 3.1671087e-05f, 1.0688447e-05f,
     3.3976369e-06f, 1.0170679e-06f, 2.866456e-07f, 7.604954e-08f, 1.8989688e-08f,
     4.462212e-09f, 9.865994e-10f, 2.0522953e-10f, 4.0160812e-11f, 7.392449e-12f,
     1.2798544e-12f, 2.0839435e-13f, 3.1910543e-14f, 0.0f},
    {-0.3989421f, -0.38666758f, -0.35206506f, -0.30113742f, -0.24197103f, -0.18264952f,
     -0.12951803f, -0.08627762f, -0.053991124f, -0.031739682f, -0.017528255f, -0.009093481f,
     -0.0044317683f, -0.0020289856f, -0.000872641f, -0.0003525712f, -0.0001338173f,
     -4.771243e-05f, -1.5981017e-05f, -5.028409e-06f, -1.486311e-06f, -4.1269982e-07f,
     -1.0764653e-07f, -2.6377155e-08f, -6.071634e-09f, -1.3129017e-09f, -2.6669025e-10f,
     -5.088968e-11f, -9.12219e-12f, -1.5360825e-12f, -2.4298258e-13f, 0.0f},
    {-1.3122956e-05f, 0.048335563f, 0.08801567f, 0.11292704f, 0.1209841f, 0.11415421f,
     0.097137146f, 0.075491436f, 0.053990442f, 0.035707086f, 0.021910671f, 0.0125040915f,
     0.006648188f, 0.0032975392f, 0.0015274216f, 0.000661256f, 0.0002677366f, 0.00010144035f,
     3.5980996e-05f, 1.1952504e-05f, 3.719694e-06f, 1.0837458e-06f, 2.9606463e-07f,
     7.584537e-08f, 1.8217952e-08f, 4.1036126e-09f, 8.6693625e-10f, 1.7179615e-10f,
     3.1936873e-11f, 5.570123e-12f, 9.115219e-13f, 0.0f},
    {0.06680819f, 0.060259957f, 0.043924738f, 0.021957953f, 7.8689314e-05f, -0.01700803f,
     -0.026869299f, -0.02957586f, -0.026952604f, -0.02148171f, -0.015349837f, -0.009967627f,
     -0.005930388f, -0.0032503968f, -0.0016473801f, -0.00077417964f, -0.00033805086f,
     -0.00013737656f, -5.2021143e-05f, -1.8375e-05f, -6.0592447e-06f, -1.8671983e-06f,
     -5.3805456e-07f, -1.4493044e-07f, -3.6525822e-08f, -8.616036e-09f, -1.902922e-09f,
     -3.9360532e-10f, -7.626678e-11f, -1.384646e-11f, -2.3558926e-12f, 0.0f},
    {-0.0030301188f, -0.011904402f, -0.020102978f, -0.022911446f, -0.020052085f, -0.013574396f,
     -0.00600981f, 0.00044605194f, 0.004510281f, 0.0061227535f, 0.0059066103f, 0.0047238297f,
     0.0032986375f, 0.0020591593f, 0.0011652283f, 0.0006024348f, 0.00028624618f,
     0.00012546772f, 5.0884326e-05f, 1.913649e-05f, 6.685153e-06f, 2.2371137e-06f,
     6.867877e-07f, 1.9460934e-07f, 5.1456418e-08f, 1.2702889e-08f, 2.9296854e-09f,
     6.3155636e-10f, 1.2730529e-10f, 2.4004628e-11f, 4.235498e-12f, 0.0f}};
#endif

#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes gelu(float_lanes x) { return gelu_by_table(x, tail_table); }
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

// Orders stores that bypassed the cache before whatever another thread reads next.
static inline void stream_fence() {
#if defined(__SSE__)
  __builtin_ia32_sfence();
#endif
}

extern "C" void pointwise_mul_erf_add(const float* __restrict T1_in, float* __restrict T9_out, const index64 n0, const index64 chunks, const bool threaded) {
  #pragma omp parallel if (threaded)
  {
    #pragma omp for
    for (index64 chunk = 0; chunk < chunks; ++chunk) {
      const index64 i0 = chunk * 64 < n0 - 64 ? chunk * 64 : n0 - 64;
      prefetch_ahead<64>(T1_in + i0);
      float T9_lanes[64];
      float T9_given[64];
      float T9_held[64];
      #pragma omp simd
      for (int lane = 0; lane < 64; ++lane) {
        const float T1 = T1_in[i0 + lane];
        T9_given[lane] = T1;
      }
      in_lanes(T9_held, T9_given, [](auto x) { return gelu(x); });
      #pragma omp simd
      for (int lane = 0; lane < 64; ++lane) {
        const float T9 = T9_held[lane];
        T9_lanes[lane] = T9;
      }
      stream_chunk(T9_out + i0, T9_lanes);
    }
    stream_fence();
  }
}
