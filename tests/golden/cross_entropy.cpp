// rows_max_sub_exp_sum_log: 67112960 bytes read, 4 written
// ends here: T21 is an output
//   T0 = fd.define_tensor(shape=[512, 32768], contiguity=[True, True], dtype=DataType.Float)
//   T1 = fd.define_tensor(shape=[512], contiguity=[True], dtype=DataType.Int)
//   T2 = fd.ops.max(T0, dims=[1], keepdim=True)
//   T3 = fd.ops.sub(T0, T2)
//   T4 = fd.ops.exp(T3)
//   T5 = fd.ops.sum(T4, dims=[1], keepdim=True)
//   T6 = fd.ops.log(T5)
//   S8 = fd.define_scalar(-100, dtype=DataType.Int)
//   T9 = fd.ops.ne(T1, S8)
//   S10 = fd.define_scalar(0, dtype=DataType.Int)
//   T11 = fd.ops.where(T9, T1, S10)
//   T12 = fd.ops.broadcast(T11, is_broadcast_dim=[False, True])
//   T22 = fd.ops.gather(T0, T12, dim=1)
//   T23 = fd.ops.sub(T22, T2)
//   T13 = fd.ops.sub(T23, T6)
//   T14 = fd.ops.squeeze(T13, dims=[1])
//   T15 = fd.ops.neg(T14)
//   S16 = fd.define_scalar(0.0, dtype=DataType.Double)
//   T17 = fd.ops.where(T9, T15, S16)
//   T24 = fd.ops.cast(T9, dtype=DataType.Int)
//   T18 = fd.ops.sum(T24, dims=[0], keepdim=False)
//   T19 = fd.ops.cast(T18, dtype=DataType.Float)
//   T20 = fd.ops.sum(T17, dims=[0], keepdim=False)
//   T21 = fd.ops.truediv(T20, T19)
// Another type than int64, so that to a compiler no store to a tensor of those changes an index.
typedef long index64;
static_assert(sizeof(index64) == 8, "64 bits");

extern "C" int omp_get_max_threads();
static inline int thread_count() { return omp_get_max_threads(); }

// Room for numbers of one thread: no vector of them lies across two lines, and no line, nor one that
// is brought in with it, has what another thread writes. It is freed by free().
extern "C" void* aligned_alloc(unsigned long alignment, unsigned long size);
template <class T>
static inline T* on_own_lines(long long count) {
  return static_cast<T*>(aligned_alloc(128, (sizeof(T) * count + 127) / 128 * 128));
}

typedef long long int64;

extern "C" int omp_get_thread_num();
static inline int thread_number() { return omp_get_thread_num(); }

extern "C" int omp_get_num_threads();
static inline int threads_here() { return omp_get_num_threads(); }

// The part of this thread, of `slots` numbers that are each `fill`. Parts of threads that were asked
// for and did not come are filled too, as all parts are joined.
template <class T>
static inline T* own_part(T* parts, long long slots, int threads, T fill) {
  const int own = thread_number();
  for (int part = own; part < threads; part += threads_here()) {
    for (long long slot = 0; slot < slots; ++slot) parts[part * slots + slot] = fill;
  }
  return parts + own * slots;
}

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

// An index counted from the start; one that is out of range is `size` or more.
static inline unsigned long long index_from_start(long long index, long long size, bool wraps) {
  return static_cast<unsigned long long>(wraps && index < 0 ? index + size : index);
}

// An index counted from the start, `outside` in place of one that is out of range.
static inline long long index_or(long long outside, unsigned long long at, long long size) {
  return at < static_cast<unsigned long long>(size) ? static_cast<long long>(at) : outside;
}

// An index in range; `outside` in place of one that is not.
static inline long long index_in_range(long long index, long long size, bool wraps,
                                       long long outside) {
  return index_or(outside, index_from_start(index, size, wraps), size);
}

// Reports an index, counted from the start, that is out of range. The first thread reports.
static inline void report_index(unsigned long long at, long long size, bool wraps, long long check,
                                long long* errors) {
  if (at < static_cast<unsigned long long>(size)) return;
  long long none = 0;
  if (__atomic_compare_exchange_n(errors, &none, check, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    const long long index = static_cast<long long>(at);
    errors[1] = wraps && index < 0 ? index - size : index;
  }
}

// An index in range; one that is not is reported, and `outside` taken instead.
static inline long long checked_index(long long index, long long size, bool wraps,
                                      long long outside, long long check, long long* errors) {
  report_index(index_from_start(index, size, wraps), size, wraps, check, errors);
  return index_in_range(index, size, wraps, outside);
}

// x = m 2^exponent with m in [sqrt(1/2), sqrt(2)), for positive finite x.
struct scaled {
  float m;
  int32 exponent;
};
FUSER_DEVICE scaled scaled_of(float x) {
  const bool subnormal = x < 1.17549435e-38f;
  const int32 bits = bits_of(subnormal ? x * 8388608.0f : x) - 0x3f3504f3;
  return {float_of((bits & 0x7fffff) + 0x3f3504f3), (bits >> 23) - (subnormal ? 23 : 0)};
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

// log(1 + r) - r for sqrt(1/2) <= 1 + r < sqrt(2); error 7.7e-10 of log(1 + r).
FUSER_DEVICE float log_tail(float r) {
  const float cubic = polynomial(r, 0.333333135f, -0.250000089f, 0.20002073f, -0.166679934f,
                                 0.142203152f, -0.124060884f, 0.118837953f, -0.116712689f,
                                 0.0675014183f);
  return r * r * (-0.5f + r * cubic);
}

// `value` for positive finite x, else what a logarithm of x is.
template <class T>
FUSER_DEVICE T log_or_limit(T x, T value) {
  const T positive = x < T(__builtin_inf()) ? value : x;
  const T other = x == 0 ? T(-__builtin_inf()) : T(__builtin_nan(""));
  return x > 0 ? positive : other;
}

// At most 0.9 ulp.
FUSER_DEVICE float log(float x) {
  const scaled s = scaled_of(x);
  const float n = float(s.exponent), r = s.m - 1.0f;
  const float value = n * 0.693145752f + (r + (log_tail(r) + n * 1.42860677e-6f));
  return log_or_limit(x, value);
}

extern "C" void rows_max_sub_exp_sum_log(const float* __restrict T0_in, const int64* __restrict T1_in, float* __restrict T21_out, const index64 T18_slots, const index64 T20_slots, const index64 n0, const index64 n1, const index64 T0_offset, const index64 T22_index_size, long long* errors, const bool threaded) {
  const int threads = threaded ? thread_count() : 1;
  int64* const T18_parts = on_own_lines<int64>(threads * T18_slots);
  double* const T20_parts = on_own_lines<double>(threads * T20_slots);
  #pragma omp parallel num_threads(threads)
  {
    int64* __restrict const T18_part = own_part(T18_parts, T18_slots, threads, 0LL);
    double* __restrict const T20_part = own_part(T20_parts, T20_slots, threads, 0.0);
    #pragma omp for
    for (index64 i0 = 0; i0 < n0; ++i0) {
      const int64 T1 = T1_in[i0];
      const bool T9 = T1 != (-100LL);
      const int64 T24 = int64(T9);
      T18_part[0] = T18_part[0] + T24;
      float T2_lanes[64];
      for (int lane = 0; lane < 64; ++lane) T2_lanes[lane] = -__builtin_inff();
      const auto sweep0 = [&](const index64 i1, const int lane, const bool repeated) __attribute__((always_inline)) {
        const float T0 = T0_in[i1 + i0 * n1];
        T2_lanes[lane] = where(T2_lanes[lane] > T0, T2_lanes[lane], T0);
      };
      index64 start0 = 0;
      for (; start0 + 64 <= n1; start0 += 64) {
        #pragma omp simd
        for (int lane = 0; lane < 64; ++lane) sweep0(start0 + lane, lane, false);
      }
      if (start0 < n1) {
        const int done = int(start0 + 64 - n1);
        #pragma omp simd
        for (int lane = 0; lane < 64; ++lane) sweep0(n1 - 64 + lane, lane, lane < done);
      }
      const float T2 = join_lanes<64>([](float x, float y) { return maximum(x, y); }, T2_lanes);
      double T5_part[1] = {0.0};
      for (index64 block = 0; block < n1; block += 2048) {
        const index64 block_end = block + (n1 - block < 2048 ? n1 - block : 2048);
        float T5_lanes[64];
        for (int lane = 0; lane < 64; ++lane) T5_lanes[lane] = 0.0f;
        const auto round1 = [&](const index64 i1, const int done) __attribute__((always_inline)) {
          const index64 first = i1;
          prefetch_lanes<64>(T0_in + i1 + i0 * n1 + T0_offset);
          float T4_given[64];
          float T4_held[64];
          #pragma omp simd
          for (int lane = 0; lane < 64; ++lane) {
            const index64 i1 = first + lane;
            const float T0 = T0_in[i1 + i0 * n1];
            const float T3 = T0 - T2;
            T4_given[lane] = T3;
          }
          in_lanes(T4_held, T4_given, [](auto x) { return exp_nonpositive(x); });
          #pragma omp simd
          for (int lane = 0; lane < 64; ++lane) {
            const index64 i1 = first + lane;
            const bool repeated = lane < done;
            const float T4 = T4_held[lane];
            T5_lanes[lane] = T5_lanes[lane] + where(repeated, 0.0f, T4);
          }
        };
        index64 start1 = block;
        for (; start1 + 64 <= block_end; start1 += 64) round1(start1, 0);
        if (start1 < block_end) round1(block_end - 64, int(start1 + 64 - block_end));
        const double T5 = double(join_lanes<64>([](float x, float y) { return x + y; }, T5_lanes));
        T5_part[0] = T5_part[0] + T5;
      }
      const float T5 = float(T5_part[0]);
      const int64 T11 = where(T9, T1, 0LL);
      const long long T22_index = checked_index(T11, T22_index_size, false, 0, 1, errors);
      const float T0_1 = T0_in[i0 * n1 + T22_index];
      const float T23 = T0_1 - T2;
      const float T6 = log(T5);
      const float T13 = T23 - T6;
      const float T15 = -T13;
      const float T17 = where(T9, T15, 0.0f);
      T20_part[0] = T20_part[0] + double(T17);
    }
  }
  int64 T18_all = 0LL;
  for (int thread = 0; thread < threads; ++thread) T18_all = T18_all + T18_parts[thread * T18_slots + 0];
  const int64 T18 = T18_all;
  double T20_all = 0.0;
  for (int thread = 0; thread < threads; ++thread) T20_all = T20_all + T20_parts[thread * T20_slots + 0];
  const float T20 = float(T20_all);
  const float T19 = float(T18);
  const float T21 = T20 / T19;
  T21_out[0] = T21;
  __builtin_free(T18_parts);
  __builtin_free(T20_parts);
}
