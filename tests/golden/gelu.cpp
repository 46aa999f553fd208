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
typedef long long int64;

// Asks for what is read soon, a page further on: processors look ahead by themselves within a page.
static inline void prefetch_line(const void* now) {
  __builtin_prefetch(static_cast<const char*>(now) + 4096, 0, 2);
}

// Asks for what the chunks after this one read.
template <int Count, class T>
static inline void prefetch_ahead(const T* at) {
  const char* now = reinterpret_cast<const char*>(at);
  for (unsigned int line = 0; line < Count * sizeof(T); line += 64) prefetch_line(now + line);
}

#define FUSER_DEVICE static inline __attribute__((always_inline, unused))

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

// Sixteen lanes. `fused` is one operation whatever contraction the kernel is compiled with.
#if defined(__AVX512F__) && !defined(__clang__)
#define FUSER_LANE_VECTORS
typedef float float_lanes __attribute__((vector_size(64), may_alias));
typedef int int_lanes __attribute__((vector_size(64), may_alias));
typedef float_lanes float_lanes_anywhere __attribute__((aligned(4)));

FUSER_DEVICE float_lanes lanes_at(const float* at) {
  return *reinterpret_cast<const float_lanes_anywhere*>(at);
}
FUSER_DEVICE float_lanes all_lanes(float x) { return x - float_lanes{}; }
FUSER_DEVICE float_lanes fused(float_lanes x, float_lanes y, float_lanes z) {
  return __builtin_ia32_vfmaddps512_mask(x, y, z, 0xffff, 4);
}
// These keep NaN in x.
FUSER_DEVICE float_lanes at_least(float low, float_lanes x) {
  return __builtin_ia32_maxps512_mask(all_lanes(low), x, x, 0xffff, 4);
}
FUSER_DEVICE float_lanes at_most(float high, float_lanes x) {
  return __builtin_ia32_minps512_mask(all_lanes(high), x, x, 0xffff, 4);
}
// By the lowest four bits of each lane.
FUSER_DEVICE float_lanes looked_up(float_lanes which, const float (&table)[16]) {
  return __builtin_ia32_permvarsf512_mask(lanes_at(table), int_lanes(which), which, 0xffff);
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

// An odd function of which a table has polynomials for |x| near 0, Step, 2 Step, ... 15 Step, and
// which no longer changes from there on.
#if defined(FUSER_LANE_VECTORS)
template <int Terms>
FUSER_DEVICE float_lanes odd_by_table(float_lanes x, float step, const float (&table)[Terms][16]) {
  const int_lanes sign = int_lanes(x) & int_lanes(all_lanes(-0.0f));
  const float_lanes a = at_most(15 * step, float_lanes(int_lanes(x) ^ sign));
  const float_lanes shifter = all_lanes(12582912.0f);  // 1.5 2^23: the sum's low bits are the entry
  const float_lanes shifted = fused(a, all_lanes(1 / step), shifter);
  const float_lanes r = fused(shifter - shifted, all_lanes(step), a);
  float_lanes value = looked_up(shifted, table[Terms - 1]);
#pragma GCC unroll 8
  for (int term = Terms - 2; term >= 0; --term) {
    value = fused(value, r, looked_up(shifted, table[term]));
  }
  return float_lanes(int_lanes(value) | sign);
}
#endif

// At most 2.3 ulp.
#if defined(FUSER_LANE_VECTORS)
alignas(64) constexpr float erf_table[6][16] = {
    {0.0f, 0.292823225f, 0.547528446f, 0.740236998f, 0.867058277f, 0.939653337f, 0.975797713f,
     0.99145031f, 0.997345984f, 0.999277413f, 0.999827683f, 0.999964058f, 0.999993443f,
     0.999998987f, 0.999999881f, 1.0f},
    {1.12837911f, 1.05150819f, 0.850914001f, 0.59796232f, 0.364902884f, 0.193373099f, 0.088987723f,
     0.0355614461f, 0.0123408204f, 0.00371898105f, 0.000973238493f, 0.000221171998f,
     4.36472255e-05f, 7.479955e-06f, 1.11316842e-06f, 1.43859381e-07f},
    {0.0f, -0.279295772f, -0.452041537f, -0.476503342f, -0.387714207f, -0.256820619f, -0.141823724f,
     -0.0661301613f, -0.0262269564f, -0.0088950051f, -0.00258174492f, -0.000645242224f,
     -0.000137661656f, -3.2293603e-05f, -4.13523367e-06f, -5.72336603e-07f},
    {-0.376095533f, -0.301000953f, -0.123559877f, 0.0538138971f, 0.152992174f, 0.162940592f,
     0.121027611f, 0.0701109245f, 0.0330377482f, 0.012929772f, 0.00425329199f, 0.00118495431f,
     0.000281030603f, 5.69466356e-05f, 9.8839937e-06f, 1.4729012e-06f},
    {0.0f, 0.13178812f, 0.182300225f, 0.137132928f, 0.0484185591f, -0.0223557595f, -0.0489098169f,
     -0.042640999f, -0.02627418f, -0.0123580666f, -0.00497905491f, -0.00157858559f,
     -0.000473274966f, 0.000195779488f, -1.76444064e-05f, -2.86958812e-06f},
    {0.110651456f, 0.0739591941f, -0.000798535009f, -0.0591825806f, -0.0659703314f, -0.0370040759f,
     -0.00517185405f, 0.0109181656f, 0.0124442838f, 0.00807426684f, 0.00383189856f, 0.00143125479f,
     0.000434511981f, 0.000109167166f, 2.30385776e-05f, 4.08710275e-06f}};
FUSER_DEVICE float_lanes erf(float_lanes x) { return odd_by_table(x, 0.265625f, erf_table); }
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

extern "C" void pointwise_mul_erf_add(const float* __restrict T1_in, float* __restrict T9_out, const int64 n0, const int64 chunks, const bool threaded) {
  #pragma omp parallel if (threaded)
  {
    #pragma omp for
    for (int64 chunk = 0; chunk < chunks; ++chunk) {
      const int64 i0 = chunk * 64 < n0 - 64 ? chunk * 64 : n0 - 64;
      prefetch_ahead<64>(T1_in + i0);
      float T9_lanes[64];
      float T6_given[64];
      float T6_held[64];
      #pragma omp simd
      for (int lane = 0; lane < 64; ++lane) {
        const float T1 = T1_in[i0 + lane];
        const float T5 = T1 * 0.707107f;
        T6_given[lane] = T5;
      }
      in_lanes(T6_held, T6_given, [](auto x) { return erf(x); });
      #pragma omp simd
      for (int lane = 0; lane < 64; ++lane) {
        const float T1 = T1_in[i0 + lane];
        const float T3 = T1 * 0.5f;
        const float T6 = T6_held[lane];
        const float T8 = T6 + 1.0f;
        const float T9 = T3 * T8;
        T9_lanes[lane] = T9;
      }
      stream_chunk(T9_out + i0, T9_lanes);
    }
    stream_fence();
  }
}
