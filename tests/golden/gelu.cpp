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
// These keep NaN in x.
FUSER_DEVICE float_lanes at_least(float low, float_lanes x) {
  return __builtin_ia32_maxps512_mask(all_lanes(low), x, x, 0xffff, 4);
}
FUSER_DEVICE float_lanes at_most(float high, float_lanes x) {
  return __builtin_ia32_minps512_mask(all_lanes(high), x, x, 0xffff, 4);
}
// By the lowest four bits of each lane, or by five.
FUSER_DEVICE float_lanes looked_up(float_lanes which, const float (&table)[16]) {
  return __builtin_ia32_permvarsf512_mask(lanes_at(table), int_lanes(which), which, 0xffff);
}
FUSER_DEVICE float_lanes looked_up(float_lanes which, const float (&table)[32]) {
  const float_lanes low = lanes_at(table), high = lanes_at(table + 16);
  return __builtin_ia32_vpermt2varps512_mask(int_lanes(which), low, high, 0xffff);
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

// An odd function of which a table has polynomials for |x| near 0, a step, 2 steps, ... 31 steps,
// and which no longer changes from there on.
#if defined(FUSER_LANE_VECTORS)
// `which` has the number of steps in its lowest bits; r is what |x| has more than those.
template <int Terms>
FUSER_DEVICE float_lanes odd_near(float_lanes which, float_lanes r, int_lanes sign,
                                  const float (&table)[Terms][32]) {
  float_lanes value = looked_up(which, table[Terms - 1]);
#pragma GCC unroll 8
  for (int term = Terms - 2; term >= 0; --term) {
    value = fused(value, r, looked_up(which, table[term]));
  }
  return float_lanes(int_lanes(value) | sign);
}

template <int Terms>
FUSER_DEVICE float_lanes odd_by_table(float_lanes x, float step, const float (&table)[Terms][32]) {
  const int_lanes sign = sign_of(x);
  const float_lanes a = at_most(31 * step, float_lanes(int_lanes(x) ^ sign));
  const float_lanes shifter = all_lanes(12582912.0f);  // 1.5 2^23: the sum's low bits are the entry
  const float_lanes which = fused(a, all_lanes(1 / step), shifter);
  return odd_near(which, fused(shifter - which, all_lanes(step), a), sign, table);
}

// Steps of 2^-Log: what is more than whole steps is one instruction.
template <int Log, int Terms>
FUSER_DEVICE float_lanes odd_by_binary_table(float_lanes x, const float (&table)[Terms][32]) {
  const int_lanes sign = sign_of(x);
  const float_lanes a = at_most(31.0f / (1 << Log), float_lanes(int_lanes(x) ^ sign));
  const float_lanes which = a + all_lanes(12582912.0f / (1 << Log));
  return odd_near(which, __builtin_ia32_reduceps512_mask(a, Log << 4, a, 0xffff), sign, table);
}
#endif

// At most 2.3 ulp.
#if defined(FUSER_LANE_VECTORS)
alignas(64) constexpr float erf_table[5][32] = {
    {0.0f, 0.140316203f, 0.276326388f, 0.404116899f, 0.520499885f, 0.623240888f, 0.711155653f,
     0.784075081f, 0.842700779f, 0.888388216f, 0.92290014f, 0.948170066f, 0.966105163f,
     0.978443742f, 0.986671686f, 0.99199003f, 0.995322287f, 0.997345984f, 0.998537302f,
     0.999217033f, 0.999593019f, 0.999794602f, 0.999899387f, 0.999952137f, 0.999977887f,
     0.999990106f, 0.999995708f, 0.999998212f, 0.999999285f, 0.999999702f, 0.999999881f, 1.0f},
    {1.12837923f, 1.1108849f, 1.06001377f, 0.980352819f, 0.87878257f, 0.763499558f, 0.642931044f,
     0.524745047f, 0.415107489f, 0.318273962f, 0.236521125f, 0.170359775f, 0.118930288f,
     0.0804722607f, 0.0527749956f, 0.0335458294f, 0.0206669848f, 0.0123408204f, 0.00714231888f,
     0.004006478f, 0.00217828434f, 0.0011478751f, 0.000586277223f, 0.000290228287f, 0.000139253054f,
     6.47586858e-05f, 2.91889137e-05f, 1.27514395e-05f, 5.39927032e-06f, 2.2158606e-06f,
     8.81397284e-07f, 0.0f},
    {-1.27460889e-05f, -0.138855457f, -0.264999658f, -0.36761719f, -0.439400375f, -0.477195293f,
     -0.482229799f, -0.459183693f, -0.415090919f, -0.358036369f, -0.295669168f, -0.234235406f,
     -0.178427637f, -0.13078478f, -0.0923860446f, -0.0628429875f, -0.0413774215f, -0.0262499116f,
     -0.0161068719f, -0.00945839193f, -0.00538823474f, -0.00296900165f, -0.00163086876f,
     -0.000818900997f, -0.000371252478f, -0.000207124045f, -0.000117795469f, -9.84731741e-05f,
     -7.57689559e-05f, -2.14593365e-06f, 7.89235219e-06f, 0.0f},
    {-0.375875682f, -0.358255357f, -0.308789104f, -0.23474437f, -0.146453872f, -0.0557603054f,
     0.0266657732f, 0.0927431658f, 0.138156205f, 0.162273929f, 0.167399764f, 0.157845393f,
     0.138721973f, 0.114834838f, 0.0901720673f, 0.067463614f, 0.048251316f, 0.0330641232f,
     0.0217472482f, 0.0137471035f, 0.00836215727f, 0.00490128994f, 0.00276693865f, 0.00150593207f,
     0.000791095314f, 0.000401165424f, 0.000196873763f, 9.32210532e-05f, 4.26173647e-05f,
     1.88235917e-05f, 8.04162573e-06f, 0.0f},
    {0.00574130705f, 0.0672189146f, 0.125844389f, 0.163219854f, 0.184632003f, 0.177977711f,
     0.157380089f, 0.119156241f, 0.0658465773f, 0.0234449096f, -0.00231994176f, -0.032338541f,
     -0.0367408693f, -0.0452735424f, -0.04062723f, -0.0560618564f, -0.0237049144f, -0.0201641656f,
     -0.0100326966f, -0.0274528638f, -0.0231360979f, -0.0166275669f, 0.00142516906f,
     -0.00579673983f, -0.0128935175f, 0.000637824822f, 0.00556808012f, 0.0140161812f, 0.0144572873f,
     -0.00153492764f, -0.00287390361f, 0.0f}};
FUSER_DEVICE float_lanes erf(float_lanes x) { return odd_by_binary_table<3>(x, erf_table); }
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
