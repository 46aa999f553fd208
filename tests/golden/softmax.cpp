// rows_max_sub_exp_sum_div: 25165824 bytes read, 25165824 written
// ends here: T5 is an output
//   T0 = fd.define_tensor(shape=[8192, 768], contiguity=[True, True], dtype=DataType.Float)
//   T1 = fd.ops.max(T0, dims=[1], keepdim=True)
//   T2 = fd.ops.sub(T0, T1)
//   T3 = fd.ops.exp(T2)
//   T4 = fd.ops.sum(T3, dims=[1], keepdim=True)
//   T5 = fd.ops.div(T3, T4)
typedef long long int64;

#define FUSER_DEVICE static inline __attribute__((always_inline, unused))

template <class T>
FUSER_DEVICE T maximum(T x, T y) {
  return y > x || y != y ? y : x;
}

// All lanes of an array as one, by halves: each half is as many vector operations as it has vectors.
template <int count, class T, class Join>
static inline T join_lanes(T* lanes, Join join) {
  if constexpr (count == 1) {
    return lanes[0];
  } else {
    for (int lane = 0; lane < count / 2; ++lane) {
      lanes[lane] = join(lanes[lane], lanes[lane + count / 2]);
    }
    return join_lanes<count / 2>(lanes, join);
  }
}

typedef int int32;

FUSER_DEVICE int32 bits_of(float x) { return __builtin_bit_cast(int32, x); }
FUSER_DEVICE int64 bits_of(double x) { return __builtin_bit_cast(int64, x); }

// c0 + c1 x + c2 x^2 + ..., by Horner's scheme, in the type of x.
template <class T>
FUSER_DEVICE T polynomial(T, T c0) {
  return c0;
}
template <class T, class... Rest>
FUSER_DEVICE T polynomial(T x, T c0, Rest... rest) {
  return c0 + x * polynomial(x, rest...);
}

// (e^r - 1 - r) / r^2 for |r| <= ln(2)/2; error 3.1e-9 of e^r.
FUSER_DEVICE float exp_polynomial(float r) {
  return polynomial(r, 0.49999994f, 0.166665211f, 0.0416682623f, 0.00836867094f, 0.00138209993f);
}

// e^x = value 2^n, by Cody and Waite: x = n ln2 + r, with ln2 in two parts.
struct exp_parts {
  float value;
  int32 n;
};
FUSER_DEVICE exp_parts exp_parts_of(float x) {
  const float shifter = 12582912.0f;  // 1.5 2^23: the sum's low bits are the nearest integer
  const float shifted = x * 1.44269504f + shifter;
  const float n = shifted - shifter;
  const float r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
  return {1.0f + (r + r * r * exp_polynomial(r)), bits_of(shifted) - bits_of(shifter)};
}

FUSER_DEVICE float float_of(int32 bits) { return __builtin_bit_cast(float, bits); }

// x 2^n for |n| <= 252, in two steps so that subnormal results are rounded once.
FUSER_DEVICE float scale_by_power(float x, int32 n) {
  const int32 half_n = n >> 1;
  return x * float_of((half_n + 127) << 23) * float_of((n - half_n + 127) << 23);
}

// factor e^x for 2^-10 < |factor| < 2.
FUSER_DEVICE float exp_times(float x, float factor) {
  x = x < -160.0f ? -160.0f : x;
  x = x > 90.0f ? 90.0f : x;
  const exp_parts parts = exp_parts_of(x);
  return scale_by_power(factor * parts.value, parts.n);
}

// At most 1.1 ulp.
FUSER_DEVICE float exp(float x) { return exp_times(x, 1.0f); }

extern "C" void rows_max_sub_exp_sum_div(const float* __restrict T0_in, float* __restrict T5_out, const int64 n0, const int64 n1, const bool threaded) {
  #pragma omp parallel for if (threaded)
  for (int64 i0 = 0; i0 < n0; ++i0) {
    float T3_row[n1];
    float T1_lanes[64];
    for (int lane = 0; lane < 64; ++lane) T1_lanes[lane] = -__builtin_inff();
    const auto sweep0 = [&](const int64 i1, const int lane) __attribute__((always_inline)) {
      const float T0 = T0_in[i0 * n1 + i1];
      T1_lanes[lane] = maximum(T1_lanes[lane], T0);
    };
    int64 start0 = 0;
    for (; start0 + 64 <= n1; start0 += 64) {
      #pragma omp simd
      for (int lane = 0; lane < 64; ++lane) sweep0(start0 + lane, lane);
    }
    for (int lane = 0; lane < n1 - start0; ++lane) sweep0(start0 + lane, lane);
    const float T1 = join_lanes<64>(T1_lanes, [](float x, float y) { return maximum(x, y); });
    float T4_lanes[64];
    for (int lane = 0; lane < 64; ++lane) T4_lanes[lane] = 0.0f;
    const auto sweep1 = [&](const int64 i1, const int lane) __attribute__((always_inline)) {
      const float T0 = T0_in[i0 * n1 + i1];
      const float T2 = T0 - T1;
      const float T3 = exp(T2);
      T3_row[i1] = T3;
      T4_lanes[lane] = T4_lanes[lane] + T3;
    };
    int64 start1 = 0;
    for (; start1 + 64 <= n1; start1 += 64) {
      #pragma omp simd
      for (int lane = 0; lane < 64; ++lane) sweep1(start1 + lane, lane);
    }
    for (int lane = 0; lane < n1 - start1; ++lane) sweep1(start1 + lane, lane);
    const float T4 = join_lanes<64>(T4_lanes, [](float x, float y) { return x + y; });
    #pragma omp simd
    for (int64 i1 = 0; i1 < n1; ++i1) {
      const float T3 = T3_row[i1];
      const float T5 = T3 / T4;
      T5_out[i0 * n1 + i1] = T5;
    }
  }
}
