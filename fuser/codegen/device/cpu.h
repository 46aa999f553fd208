// The CPU device library: the functions that generated C++ calls, without any header.
//
// The float32 functions are branch-free, so that a loop over them becomes SIMD code; they assume
// -fno-trapping-math, and hold with and without contraction to fma. Coefficients are minimax fits
// (weighted least squares, reweighted by Lawson's method, each coefficient rounded to the type it
// is used in before the next is fitted). "At most 1.1 ulp" was measured, with fma, over all float32
// arguments, NaN, infinities, subnormals and the sign of zero included; it counts units in the last
// place of the exact result. Without fma it is up to 0.2 ulp more. Those of float64 are in cpu_float64.h.

//@ FUSER_DEVICE
#define FUSER_DEVICE static inline __attribute__((always_inline, unused))

//@ FUSER_MEMBER
#define FUSER_MEMBER inline __attribute__((always_inline))

//@ int64
typedef long long int64;

//@ index64
// Another type than int64, so that to a compiler no store to a tensor of those changes an index.
typedef long index64;
static_assert(sizeof(index64) == 8, "64 bits");

//@ int32
typedef int int32;

//@ int16
typedef short int16;

//@ int8
typedef signed char int8;

//@ uint64
typedef unsigned long long uint64;

//@ uint64_of: FUSER_DEVICE, int64, uint64
// Of a float; those below 0 wrap around. C++ says nothing of these, and compilers make another number
// of them in vectors than one by one, as torch's kernels convert.
FUSER_DEVICE uint64 uint64_of(double x) {
  constexpr double half = 0x1p63;
  return x >= half ? uint64(int64(x - half)) ^ 1ull << 63 : uint64(int64(x));
}

//@ plus_zero: FUSER_DEVICE
// Of an integer that was a float: g++ 12 makes both conversions one truncation, of which numbers
// between -1 and 0 are -0.
template <class Float>
FUSER_DEVICE Float plus_zero(Float x) {
  return x + Float(0);
}

//@ uint8
typedef unsigned char uint8;

//@ stored_byte
// A number of 8 bits where it is stored: another type than char, since to a compiler a store to a
// char may change anything, and loops around it have no vectors.
enum stored_byte : unsigned char {};

//@ narrow_float: FUSER_MEMBER
// A number kept in fewer bits than a float32; `Format` says how. Every type is converted through
// float, as in torch. Copies are spelled out, and integers do the work, because g++ vectorizes
// neither loops that assign whole structs nor _Float16.
template <class Format>
struct narrow_float {
  typename Format::word bits;

  narrow_float() = default;
  FUSER_MEMBER narrow_float(const narrow_float& other) : bits(other.bits) {}
  template <class T>
  FUSER_MEMBER explicit narrow_float(T x)
      : bits(typename Format::word(Format::narrow(float(x)))) {}
  FUSER_MEMBER narrow_float& operator=(const narrow_float& other) {
    bits = other.bits;
    return *this;
  }
  FUSER_MEMBER operator float() const { return Format::widen(bits); }
};

//@ narrow_magnitude: FUSER_DEVICE, bits_of, float_of
// The bits of a number that is not negative where the mantissa is `Shift` bits shorter than a
// float32's and exponents are less by `Rebias`: to nearest even. Below the least normal number the
// addition of a number whose last place is that of subnormals rounds. Numbers above `Limit` are
// taken for it with a minimum, and NaN is set with a mask: with choices, g++ makes branches.
template <int Shift, int Rebias, int Limit, int Nan>
FUSER_DEVICE int32 narrow_magnitude(int32 given) {
  const int32 magnitude = given < Limit ? given : Limit, places = (Rebias + 1 + Shift) << 23;
  const int32 below_half = (1 << (Shift - 1)) - 1 + ((magnitude >> Shift) & 1);
  const int32 normal = (magnitude - (Rebias << 23) + below_half) >> Shift;
  const int32 subnormal = bits_of(float_of(magnitude) + float_of(places)) - places;
  const int32 finite = magnitude < (Rebias + 1) << 23 ? subnormal : normal;
  return finite | (((0x7f800000 - given) >> 31) & Nan);
}

//@ widen_magnitude: FUSER_DEVICE, bits_of, float_of
// The float32 of a number that is not negative, whose bits have been shifted to a float32's place;
// from `Special` on, infinity or NaN.
template <int Rebias, int Special>
FUSER_DEVICE int32 widen_magnitude(int32 magnitude) {
  const int32 least = (Rebias + 1) << 23, last = (255 << 23) - (Special & (255 << 23));
  const int32 normal = magnitude + (magnitude < Special ? Rebias << 23 : last);
  const int32 subnormal = bits_of(float_of(magnitude + least) - float_of(least));
  return magnitude < 1 << 23 ? subnormal : normal;
}

//@ half: narrow_float, narrow_magnitude, widen_magnitude, int32
struct half_format {
  typedef unsigned short word;
  static constexpr int32 nans = 0x3ff;  // of either sign
  static FUSER_MEMBER int32 narrow(float x) {
    const int32 magnitude = bits_of(x) & 0x7fffffff, sign = (bits_of(x) >> 16) & 0x8000;
    return sign | narrow_magnitude<13, 112, 0x47800000, 0x7e00>(magnitude);
  }
  static FUSER_MEMBER float widen(int32 bits) {
    const int32 magnitude = (bits & 0x7fff) << 13, sign = (bits & 0x8000) << 16;
    return float_of(sign | widen_magnitude<112, 31 << 23>(magnitude));
  }
};
typedef narrow_float<half_format> half;

//@ bfloat16: narrow_float, bits_of, float_of
// The upper half of a float32: rounded to nearest even, every NaN becomes 0x7fc0.
struct bfloat16_format {
  typedef unsigned short word;
  static constexpr int32 nans = 0x7f;  // of either sign
  static FUSER_MEMBER int32 narrow(float x) {
    const unsigned bits = unsigned(bits_of(x));
    const unsigned nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return int32(x != x ? 0x7fc0u : nearest);
  }
  static FUSER_MEMBER float widen(int32 bits) { return float_of(int32(unsigned(bits) << 16)); }
};
typedef narrow_float<bfloat16_format> bfloat16;

//@ in_order: FUSER_DEVICE, int16
// The bits of a float of 16 bits as an integer in the same order, and back: those of negative
// numbers count downwards.
FUSER_DEVICE int16 in_order(int16 bits) { return int16(bits ^ ((bits >> 15) & 0x7fff)); }

//@ largest_rank: in_order, narrow_float
// Where a float of 16 bits comes in their order; NaN comes last.
template <class Format>
FUSER_DEVICE int16 largest_rank(narrow_float<Format> x) {
  return int16(in_order(int16(x.bits)) - Format::nans);
}

//@ smallest_rank: in_order, narrow_float
// Where a float of 16 bits comes in their order; NaN comes first.
template <class Format>
FUSER_DEVICE int16 smallest_rank(narrow_float<Format> x) {
  return int16(in_order(int16(x.bits)) + Format::nans);
}

//@ of_order: in_order, narrow_float, int32
// The float of 16 bits at a place in their order.
template <class Format>
FUSER_DEVICE narrow_float<Format> of_order(int32 place) {
  narrow_float<Format> x;
  x.bits = typename Format::word(in_order(int16(place)));
  return x;
}

//@ half_of_largest_rank: half, of_order
FUSER_DEVICE half half_of_largest_rank(int16 rank) {
  return of_order<half_format>(rank + half_format::nans);
}

//@ half_of_smallest_rank: half, of_order
FUSER_DEVICE half half_of_smallest_rank(int16 rank) {
  return of_order<half_format>(rank - half_format::nans);
}

//@ bfloat16_of_largest_rank: bfloat16, of_order
FUSER_DEVICE bfloat16 bfloat16_of_largest_rank(int16 rank) {
  return of_order<bfloat16_format>(rank + bfloat16_format::nans);
}

//@ bfloat16_of_smallest_rank: bfloat16, of_order
FUSER_DEVICE bfloat16 bfloat16_of_smallest_rank(int16 rank) {
  return of_order<bfloat16_format>(rank - bfloat16_format::nans);
}

//@ float8_e4m3fn: narrow_float, narrow_magnitude, widen_magnitude
// No infinity: what is beyond 448 becomes 448, and only 0x7f is NaN, with either sign.
struct float8_e4m3fn_format {
  typedef unsigned char word;
  static FUSER_MEMBER int32 narrow(float x) {
    const int32 magnitude = bits_of(x) & 0x7fffffff, sign = (bits_of(x) >> 24) & 0x80;
    return sign | narrow_magnitude<20, 120, 0x43e00000, 0x7f>(magnitude);
  }
  static FUSER_MEMBER float widen(int32 bits) {
    const int32 magnitude = (bits & 0x7f) << 20, sign = int32(unsigned(bits & 0x80) << 24);
    return float_of(sign | widen_magnitude<120, 0x7f << 20>(magnitude));
  }
};
typedef narrow_float<float8_e4m3fn_format> float8_e4m3fn;

//@ float8_e5m2: narrow_float, narrow_magnitude, widen_magnitude
// The upper half of a half; every NaN becomes 0x7f, with its sign.
struct float8_e5m2_format {
  typedef unsigned char word;
  static FUSER_MEMBER int32 narrow(float x) {
    const int32 magnitude = bits_of(x) & 0x7fffffff, sign = (bits_of(x) >> 24) & 0x80;
    return sign | narrow_magnitude<21, 112, 0x47800000, 0x7f>(magnitude);
  }
  static FUSER_MEMBER float widen(int32 bits) {
    const int32 magnitude = (bits & 0x7f) << 21, sign = int32(unsigned(bits & 0x80) << 24);
    return float_of(sign | widen_magnitude<112, 31 << 23>(magnitude));
  }
};
typedef narrow_float<float8_e5m2_format> float8_e5m2;

//@ float8_e8m0fnu: narrow_float, bits_of, float_of
// Powers of two, 2^-127 to 2^127, and NaN: the exponent of a float32, rounded by its mantissa
// without regard to the sign. Where the mantissa is one half, up; of a subnormal, down.
struct float8_e8m0fnu_format {
  typedef unsigned char word;
  static FUSER_MEMBER int32 narrow(float x) {
    const int32 magnitude = bits_of(x) & 0x7fffffff;
    const int32 nearest = (magnitude + (magnitude < 1 << 23 ? 0x3fffff : 0x400000)) >> 23;
    return magnitude < 0x7f800000 ? nearest : 0xff;
  }
  static FUSER_MEMBER float widen(int32 bits) {
    const int32 power = bits == 0 ? 1 << 22 : bits << 23;
    return float_of(bits == 0xff ? 0x7fc00000 : power);
  }
};
typedef narrow_float<float8_e8m0fnu_format> float8_e8m0fnu;

//@ float4_e2m1fn: narrow_float, narrow_magnitude, bits_of, float_of
// 0, 0.5, 1, 1.5, 2, 3, 4 or 6, in the byte that it is as float8_e4m3fn: from 1 on, its three bits
// and their sign in another place. What is beyond 6 becomes 6, and so does NaN.
struct float4_e2m1fn_format {
  typedef unsigned char word;
  static FUSER_MEMBER int32 narrow(float x) {
    const int32 magnitude = bits_of(x) & 0x7fffffff;
    const int32 sign = (bits_of(x) >> 24) & 0x80 & ~((0x7f800000 - magnitude) >> 31);
    const int32 code = narrow_magnitude<22, 126, 0x40c00000, 0>(magnitude);
    return word(sign | (4 * code + (code < 1 ? 0 : code < 2 ? 44 : 48)));
  }
  static FUSER_MEMBER float widen(int32 bits) {
    const int32 magnitude = (bits & 0x7f) << 20, sign = int32(unsigned(bits & 0x80) << 24);
    return float_of(sign | (magnitude + (magnitude == 0 ? 0 : 120 << 23)));
  }
};
typedef narrow_float<float4_e2m1fn_format> float4_e2m1fn;

//@ float4_e2m1fn_x2: narrow_float
// Two in a byte, the first in its lower half, which nothing is converted to.
struct float4_e2m1fn_x2_format {
  typedef unsigned char word;
};
typedef narrow_float<float4_e2m1fn_x2_format> float4_e2m1fn_x2;

//@ bits_of: FUSER_DEVICE, int32, int64
FUSER_DEVICE int32 bits_of(float x) { return __builtin_bit_cast(int32, x); }
FUSER_DEVICE int64 bits_of(double x) { return __builtin_bit_cast(int64, x); }

//@ float_of: FUSER_DEVICE, int32
FUSER_DEVICE float float_of(int32 bits) { return __builtin_bit_cast(float, bits); }

//@ double_of: FUSER_DEVICE, int64
FUSER_DEVICE double double_of(int64 bits) { return __builtin_bit_cast(double, bits); }

//@ polynomial: FUSER_DEVICE
// c0 + c1 x + c2 x^2 + ..., by Horner's scheme, in the type of x.
template <class T>
FUSER_DEVICE T polynomial(T, T c0) {
  return c0;
}
template <class T, class... Rest>
FUSER_DEVICE T polynomial(T x, T c0, Rest... rest) {
  return c0 + x * polynomial(x, rest...);
}

// -- exponentials ---------------------------------------------------------------------------------

//@ exp_polynomial: FUSER_DEVICE
// (e^r - 1 - r) / r^2 for |r| <= ln(2)/2; error 3.1e-9 of e^r. By Estrin's scheme: a chain of three
// operations where Horner's has four, which is what loops over exponentials wait for.
FUSER_DEVICE float exp_polynomial(float r) {
  const float square = r * r;
  const float low = 0.49999994f + r * 0.166665211f, high = 0.0416682623f + r * 0.00836867094f;
  return low + square * (high + square * 0.00138209993f);
}

//@ scale_by_power: FUSER_DEVICE, float_of
// x 2^n for |n| <= 252, in two steps so that subnormal results are rounded once.
FUSER_DEVICE float scale_by_power(float x, int32 n) {
  const int32 half_n = n >> 1;
  return x * float_of((half_n + 127) << 23) * float_of((n - half_n + 127) << 23);
}

//@ exp_parts: FUSER_DEVICE, bits_of, exp_polynomial
// e^x = (1 + rest) 2^n, by Cody and Waite: x = n ln2 + r, with ln2 in two parts.
struct exp_parts {
  float rest;
  int32 n;
};
FUSER_DEVICE exp_parts exp_parts_of(float x) {
  const float shifter = 12582912.0f;  // 1.5 2^23: the sum's low bits are the nearest integer
  const float shifted = x * 1.44269504f + shifter;
  const float n = shifted - shifter;
  const float r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
  return {r + r * r * exp_polynomial(r), bits_of(shifted) - bits_of(shifter)};
}

//@ exp_normal: FUSER_DEVICE, exp_parts, float_of
// e^x for |x| <= 87.
FUSER_DEVICE float exp_normal(float x) {
  const exp_parts parts = exp_parts_of(x);
  const float power = float_of((parts.n + 127) << 23);
  return power + power * parts.rest;
}

//@ exp_times: FUSER_DEVICE, exp_parts, float_of
// factor e^x for 2^-10 < |factor| < 2. 2^n in two steps, so that subnormal results are rounded once:
// the first is down to 2^-108, and the second is 2^8 wherever the result is normal. Of x below -163,
// as where something is masked, it is 0: a product that underflows takes some processors 100 cycles.
FUSER_DEVICE float exp_times(float x, float factor) {
  x = x < -163.0f ? -163.0f : x;
  x = x > 90.0f ? 90.0f : x;
  const exp_parts parts = exp_parts_of(x);
  const int32 upper = parts.n < -100 ? -100 : parts.n;
  const float scale = factor * float_of((upper + 119) << 23);
  return (scale + scale * parts.rest) * float_of((parts.n - upper + 135) << 23);
}

//@ exp(float): FUSER_DEVICE, exp_times
// At most 1.1 ulp.
FUSER_DEVICE float exp(float x) { return exp_times(x, 1.0f); }

//@ nonpositive_parts: FUSER_DEVICE, bits_of
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

//@ exp_nonpositive(float): FUSER_DEVICE, exp_polynomial, float_of, nonpositive_parts
// e^x for x <= 0 and NaN. At most (1 + 0.05 |x|) ulp; 0 in place of results below 2^-126. Where
// contraction makes a difference from the largest value exceed 0, the scale stays 1: the result is
// near 1, as it should be.
FUSER_DEVICE float exp_nonpositive(float x) {
  const nonpositive_parts parts = nonpositive_parts_of(x);
  const float scale = float_of((parts.sum < parts.most ? parts.sum : parts.most) << 23);
  const float r = parts.r;
  return x < -87.33654f ? 0.0f : scale + scale * (r + r * r * exp_polynomial(r));
}

//@ plus_power: FUSER_DEVICE, float_of, nonpositive_parts, polynomial
// sum + e^x for x <= 0 and NaN, where e^r is a polynomial for |r| <= ln(2)/2, from its second
// coefficient on; nothing is added below 2^-126. A difference may not exceed 0 here.
template <class... Rest>
FUSER_DEVICE float plus_power(float sum, float x, Rest... coefficients) {
  const nonpositive_parts parts = nonpositive_parts_of(x);
  const float power = float_of(parts.sum << 23) * polynomial(parts.r, 1.0f, coefficients...);
  return x < -87.33654f ? sum : sum + power;
}

//@ plus_exp(float): FUSER_DEVICE, plus_power
// What is added is e^x but for (2 + 0.05 |x|) ulp, and 1 for x = 0; error of the fit 9.2e-8. In fewer
// operations than a sum and exp_nonpositive, as what is not kept need not be rounded.
FUSER_DEVICE float plus_exp(float sum, float x) {
  return plus_power(sum, x, 0.9999997f, 0.49999148f, 0.16667654f, 0.041898176f, 0.008289218f);
}

//@ plus_exp_narrow(float): FUSER_DEVICE, plus_power
// For results of 16 bits: what is added is off by (43 + 0.05 |x|) ulp; error of the fit 2.9e-6.
FUSER_DEVICE float plus_exp_narrow(float sum, float x) {
  return plus_power(sum, x, 0.9999668f, 0.5000302f, 0.16787565f, 0.041513443f);
}

//@ exp_nonpositive_narrow(float): FUSER_DEVICE, plus_exp_narrow(float)
FUSER_DEVICE float exp_nonpositive_narrow(float x) { return plus_exp_narrow(0.0f, x); }

//@ exp2(float): FUSER_DEVICE, bits_of, polynomial, scale_by_power
// At most 0.9 ulp.
// 2^n 2^r with |r| <= 1/2, where (2^r - 1) / r is a polynomial; error of the fit 3.0e-9.
FUSER_DEVICE float exp2(float x) {
  x = x < -200.0f ? -200.0f : x;
  x = x > 130.0f ? 130.0f : x;
  const float shifter = 12582912.0f;
  const float shifted = x + shifter;
  const float r = x - (shifted - shifter);
  const float power = polynomial(r, 0.693147182f, 0.240226477f, 0.0555035956f, 0.00961849932f,
                                 0.00133909693f, 0.00015329264f);
  return scale_by_power(1.0f + r * power, bits_of(shifted) - bits_of(shifter));
}

//@ expm1(float): FUSER_DEVICE, bits_of, exp_polynomial, float_of
// At most 1.5 ulp.
// 2^n (e^r - 1) + (2^n - 1), at half scale so that 2^128 does not occur.
FUSER_DEVICE float expm1(float x) {
  float y = x < -30.0f ? -30.0f : x;
  y = y > 90.0f ? 90.0f : y;
  const float shifter = 12582912.0f;
  const float shifted = y * 1.44269504f + shifter;
  const float n = shifted - shifter;
  const float r = (y - n * 0.693145752f) - n * 1.42860677e-6f;
  const float scale = float_of((bits_of(shifted) - bits_of(shifter) + 126) << 23);
  const float value = 2.0f * (scale * (r + r * r * exp_polynomial(r)) + (scale - 0.5f));
  return x > 88.8f ? __builtin_inff() : x == 0.0f ? x : value;
}

//@ sigmoid(float): FUSER_DEVICE, exp(float)
// At most 2.5 ulp.
// e^x / (1 + e^x) for negative x, so that results below 2^-126 are right too.
FUSER_DEVICE float sigmoid(float x) {
  const float small = exp(-__builtin_fabsf(x));
  return (x < 0.0f ? small : 1.0f) / (1.0f + small);
}

//@ silu(float): FUSER_DEVICE, exp(float)
// At most 3.4 ulp. Below 2^-126 the error is 2^-143.
FUSER_DEVICE float silu(float x) {
  const float small = exp(-__builtin_fabsf(x));
  return (x < 0.0f ? x * small : x) / (1.0f + small);
}

//@ cosh(float): FUSER_DEVICE, exp_times
// At most 1.5 ulp.
FUSER_DEVICE float cosh(float x) {
  const float half_exp = exp_times(__builtin_fabsf(x), 0.5f);
  return half_exp + 0.25f / half_exp;
}

//@ sinh(float): FUSER_DEVICE, exp_times, polynomial
// At most 1.7 ulp.
// x + x^3 P(x^2) below 1; error of the fit 3.0e-10.
FUSER_DEVICE float sinh(float x) {
  const float half_exp = exp_times(__builtin_fabsf(x), 0.5f);
  const float large = __builtin_copysignf(half_exp - 0.25f / half_exp, x);
  const float t = x * x;
  const float odd = polynomial(t, 0.166666672f, 0.00833331048f, 0.000198428956f, 2.78221319e-06f);
  const float small = x + x * (t * odd);
  return __builtin_fabsf(x) < 1.0f ? small : large;
}

//@ tanh(float): FUSER_DEVICE, exp_normal, polynomial
// At most 1.4 ulp.
// x + x^3 P(x^2) below 0.625, fitted to 4.5e-9; 1 - 2 / (e^2|x| + 1) above.
FUSER_DEVICE float tanh(float x) {
  float a = __builtin_fabsf(x);
  a = a > 10.0f ? 10.0f : a;
  const float t = a * a;
  const float tail = t * polynomial(t, -0.333332807f, 0.133314088f, -0.053737063f, 0.0206309017f,
                                    -0.00569633162f);
  const float large = 1.0f - 2.0f / (exp_normal(2.0f * a) + 1.0f);
  return __builtin_copysignf(a < 0.625f ? a + a * tail : large, x);
}

// -- logarithms -----------------------------------------------------------------------------------

//@ scaled: FUSER_DEVICE, bits_of, float_of
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

//@ log_tail: FUSER_DEVICE, polynomial
// log(1 + r) - r for sqrt(1/2) <= 1 + r < sqrt(2); error 7.7e-10 of log(1 + r).
FUSER_DEVICE float log_tail(float r) {
  const float cubic = polynomial(r, 0.333333135f, -0.250000089f, 0.20002073f, -0.166679934f,
                                 0.142203152f, -0.124060884f, 0.118837953f, -0.116712689f,
                                 0.0675014183f);
  return r * r * (-0.5f + r * cubic);
}

//@ log_or_limit: FUSER_DEVICE
// `value` for positive finite x, else what a logarithm of x is.
template <class T>
FUSER_DEVICE T log_or_limit(T x, T value) {
  const T positive = x < T(__builtin_inf()) ? value : x;
  const T other = x == 0 ? T(-__builtin_inf()) : T(__builtin_nan(""));
  return x > 0 ? positive : other;
}

//@ log(float): FUSER_DEVICE, scaled, log_tail, log_or_limit
// At most 0.9 ulp.
FUSER_DEVICE float log(float x) {
  const scaled s = scaled_of(x);
  const float n = float(s.exponent), r = s.m - 1.0f;
  const float value = n * 0.693145752f + (r + (log_tail(r) + n * 1.42860677e-6f));
  return log_or_limit(x, value);
}

//@ log2(float): FUSER_DEVICE, scaled, log_tail, log_or_limit
// At most 1.0 ulp.
FUSER_DEVICE float log2(float x) {
  const scaled s = scaled_of(x);
  const float r = s.m - 1.0f;
  const double value = s.exponent + (double(r) + log_tail(r)) * 1.4426950408889634;
  return log_or_limit(x, float(value));
}

//@ log10(float): FUSER_DEVICE, scaled, log_tail, log_or_limit
// At most 0.9 ulp.
FUSER_DEVICE float log10(float x) {
  const scaled s = scaled_of(x);
  const float r = s.m - 1.0f;
  const double value = s.exponent * 0.30102999566398120 +
                       (double(r) + log_tail(r)) * 0.43429448190325183;
  return log_or_limit(x, float(value));
}

//@ log1p(float): FUSER_DEVICE, scaled, float_of, log_tail, log_or_limit
// At most 1.5 ulp.
// log(u) with u = 1 + x, where what the sum lost is added to u's mantissa.
FUSER_DEVICE float log1p(float x) {
  const float u = 1.0f + x, kept = u - 1.0f;
  const float lost = (1.0f - (u - kept)) + (x - kept);
  const scaled s = scaled_of(u);
  const int32 down = s.exponent < 40 ? s.exponent : 40;
  const float r = (s.m - 1.0f) + lost * float_of((127 - down) << 23);
  const float n = float(s.exponent);
  const float value = n * 0.693145752f + (r + (log_tail(r) + n * 1.42860677e-6f));
  return x == 0.0f ? x : log_or_limit(u, value);
}

//@ asinh(float): FUSER_DEVICE, log1p(float)
// At most 1.9 ulp.
FUSER_DEVICE float asinh(float x) {
  const float a = __builtin_fabsf(x), square = a * a;
  const bool large = a > 268435456.0f;
  const float sum = log1p(large ? a : a + square / (1.0f + __builtin_sqrtf(1.0f + square)));
  return __builtin_copysignf(large ? sum + 0.693147182f : sum, x);
}

//@ acosh(float): FUSER_DEVICE, log1p(float)
// At most 2.5 ulp.
FUSER_DEVICE float acosh(float x) {
  const float t = x - 1.0f;
  const bool large = x > 268435456.0f;
  const float sum = log1p(large ? x : t + __builtin_sqrtf(t * (t + 2.0f)));
  return x < 1.0f ? __builtin_nanf("") : large ? sum + 0.693147182f : sum;
}

//@ atanh(float): FUSER_DEVICE, log1p(float)
// At most 2.2 ulp.
FUSER_DEVICE float atanh(float x) {
  const float a = __builtin_fabsf(x);
  return __builtin_copysignf(0.5f * log1p(2.0f * a / (1.0f - a)), x);
}

//@ pow(float): FUSER_DEVICE, scaled, bits_of, float_of, double_of, polynomial
// At most 0.6 ulp on 3 million random pairs.
// 2^(y log2|x|) in double: log2 by the series of artanh (fit to 2.7e-14), 2^r to 4.7e-11.
FUSER_DEVICE float pow(float x, float y) {
  const float a = __builtin_fabsf(x);
  const scaled v = scaled_of(a);
  const double s = (double(v.m) - 1.0) / (double(v.m) + 1.0);
  const double finite = v.exponent + s * polynomial(s * s, 2.8853900817778495, 0.9617966941149784,
                                                    0.5770779418046217, 0.4122093148172235,
                                                    0.31990293700764094, 0.2829421291398564);
  // What depends on one argument alone is a mask, not a truth value: where it is the same in all
  // lanes, g++ makes no vectors of choices by one.
  const int64 zero = -int64(a == 0.0f), endless = -int64(a == __builtin_inff());
  // Finite, so that the power 0 of 0 and of infinity is 1; as y is, so that all powers of 1 are.
  const double special = double_of((zero & bits_of(-1e300)) | (endless & bits_of(1e300)));
  const double log2_a = double_of(bits_of(special) | (~(zero | endless) & bits_of(finite)));
  const double limit = 3.4028234663852886e38;
  double exponent = y;
  exponent = exponent > limit ? limit : exponent;
  exponent = exponent < -limit ? -limit : exponent;
  double t = exponent * log2_a;
  t = t < -300.0 ? -300.0 : t;
  t = t > 300.0 ? 300.0 : t;
  const double shifter = 6755399441055744.0;  // 1.5 2^52
  const double shifted = t + shifter;
  const double r = t - (shifted - shifter);
  const double value = 1.0 + r * polynomial(r, 0.6931471807045378, 0.24022651066566697,
                                            0.05550410365930134, 0.00961803813235261,
                                            0.0013333935179868286, 0.00015466756064671383,
                                            1.5196113821744237e-05);
  const float power = float(value * double_of((bits_of(shifted) << 52) + (1023LL << 52)));

  const int32 whole = -int32(__builtin_floorf(y) == y);
  const int32 odd = whole & -int32(__builtin_floorf(0.5f * y) != 0.5f * y);
  const int32 none = -int32(y == 0.0f) | -int32(x == 1.0f);
  const int32 complex = ~whole & -int32(x < 0.0f) & -int32(a < __builtin_inff());
  const int32 sign = odd & bits_of(x) & bits_of(-0.0f);
  const int32 nan = (complex | -int32(x != x)) & bits_of(__builtin_nanf(""));
  const int32 result = bits_of(power) | sign | nan;
  return float_of((none & bits_of(1.0f)) | (~none & result));
}

// -- error functions ------------------------------------------------------------------------------

//@ erf(float): FUSER_DEVICE, polynomial
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

//@ normal_cdf(float): FUSER_DEVICE, erf(float)
FUSER_DEVICE float normal_cdf(float x) { return 0.5f + 0.5f * erf(x * 0.70710677f); }

//@ gelu(float): FUSER_DEVICE, normal_cdf(float)
FUSER_DEVICE float gelu(float x) { return x * normal_cdf(x); }

//@ erfc(float): FUSER_DEVICE, exp_times, polynomial
// At most 6.9 ulp.
// e^(-x^2) P(x) / Q(x) for positive x, with the rounding of x^2 made good; fit to 4.2e-9.
FUSER_DEVICE float erfc(float x) {
  float a = __builtin_fabsf(x);
  a = a > 10.5f ? 10.5f : a;
  const float square = a * a;
  const float lost = float(double(a) * a - square);
  const float p = polynomial(a, 1.0f, 1.43517375f, 1.00183952f, 0.403114527f, 0.093060784f,
                             0.0100513371f);
  const float q = polynomial(a, 1.0f, 2.56355286f, 2.89449954f, 1.85790515f, 0.723432124f,
                             0.164944872f, 0.0178155545f);
  const float ratio = p / q;
  const float tail = exp_times(-square, ratio - ratio * lost);
  return x < 0.0f ? 2.0f - tail : tail;
}

//@ erfinv_ratio: FUSER_DEVICE, polynomial
// erfinv(x) / x as a function of w = -log(1 - x^2), fitted in w below 5 and in sqrt(w) above.
FUSER_DEVICE float erfinv_ratio(float w) {
  const float root = __builtin_sqrtf(w);
  const float centre = polynomial(w - 2.5f, 1.50140941f, 0.246640295f, -0.00417766115f,
                                  -0.00125278346f, 0.000218565678f, -4.93051448e-06f,
                                  -3.51966719e-06f, 4.57775712e-07f, 2.78099623e-08f,
                                  -8.11671708e-09f);
  const float middle = polynomial(root - 3.0f, 2.83297706f, 1.00167513f, 0.00943623669f,
                                  -0.00763172098f, 0.0057590371f, -0.00364580145f, 0.00130047975f,
                                  7.5304466e-05f, -0.000161616175f);
  const float tail = polynomial(root - 7.0f, 6.86901999f, 1.00859571f, -0.000513244886f,
                                5.78528807e-06f, 6.35409197e-06f, -1.37661038e-06f,
                                2.49852832e-07f, -8.96000643e-08f, 1.49784967e-08f);
  return w < 5.0f ? centre : w < 16.65f ? middle : tail;
}

//@ erfinv(float): FUSER_DEVICE, erfinv_ratio, log(float)
// At most 2.7 ulp.
FUSER_DEVICE float erfinv(float x) {
  const float a = __builtin_fabsf(x);
  const float value = x * erfinv_ratio(-log((1.0f - a) * (1.0f + a)));
  return a == 1.0f ? __builtin_copysignf(__builtin_inff(), x) : value;
}

//@ erfcinv(float): FUSER_DEVICE, erfinv_ratio, log(float)
// At most 3.6 ulp.
FUSER_DEVICE float erfcinv(float x) {
  const float value = (1.0f - x) * erfinv_ratio(-log(x * (2.0f - x)));
  return x == 0.0f ? __builtin_inff() : x == 2.0f ? -__builtin_inff() : value;
}

// -- trigonometry ---------------------------------------------------------------------------------

//@ quarter_turns: FUSER_DEVICE, bits_of
// x = (n + fraction) pi/2 with |fraction| <= 1/2 and n known modulo 4, for every finite float32.
//
// 2/pi, scaled by a power of 2 that x is a multiple of, only counts modulo 4. So its leading bits
// drop out, and three doubles hold what is left: two of 29 bits, whose products with x are exact,
// and a rest. |x| < 2^50, and each further 26 exponents, have their own three.
struct quarter_turns {
  double fraction;
  int32 n;
};
FUSER_DEVICE quarter_turns quarter_turns_of(float x) {
  const double v = x, a = __builtin_fabs(v);
  double high = 0x1.45f306cp-1, middle = 0x1.c9c882ap-29, low = 0x1.4fe13abe8fa9ap-59;
  high = a < 0x1p50 ? high : -0x1.1b1bbecp-28;
  middle = a < 0x1p50 ? middle : 0x1.29fc276p-56;
  low = a < 0x1p50 ? low : -0x1.05c1596447e49p-85;
  high = a < 0x1p76 ? high : -0x1.5ac07b2p-53;
  middle = a < 0x1p76 ? middle : 0x1.5f47d4ep-82;
  low = a < 0x1p76 ? low : -0x1.911f924eb5336p-111;
  high = a < 0x1p102 ? high : -0x1.505c158p-81;
  middle = a < 0x1p102 ? middle : -0x1.6447e48p-109;
  low = a < 0x1p102 ? low : -0x1.3ad4cd8778df8p-137;

  const double shifter = 6755399441055744.0;  // 1.5 2^52
  const double turns = v * high, part = v * middle;
  const double turns_n = turns + shifter, part_n = part + shifter;
  const double turns_rest = turns - (turns_n - shifter), part_rest = part - (part_n - shifter);
  const double rest_n = (turns_rest + part_rest) + shifter;
  const double fraction = ((turns_rest - (rest_n - shifter)) + part_rest) + v * low;
  return {fraction, int32(bits_of(turns_n) + bits_of(part_n) + bits_of(rest_n))};
}

//@ sin_quarter: FUSER_DEVICE, polynomial
// sin(f pi/2) for |f| <= 1/2; error 8.8e-11.
FUSER_DEVICE double sin_quarter(double f) {
  const float t = float(f * f);
  const float tail = t * polynomial(t, -0.645964086f, 0.0796923339f, -0.00467954017f,
                                    0.000154601701f);
  return f * (1.5707963267948966 + double(tail));
}

//@ cos_quarter: FUSER_DEVICE, polynomial
// cos(f pi/2) for |f| <= 1/2; error 4.4e-10.
FUSER_DEVICE double cos_quarter(double f) {
  const float t = float(f * f);
  const float tail = t * polynomial(t, 0.253668547f, -0.0208555683f, 0.000894330849f);
  return 1.0 + f * f * (-1.23370051 + double(tail));
}

//@ sin_or_cos: FUSER_DEVICE, quarter_turns, polynomial
// sin(x + turn pi/2) for x >= 0, in float from the fraction on; fits to 2.4e-11 and 4.4e-10.
FUSER_DEVICE float sin_or_cos(float x, int32 turn) {
  const quarter_turns turns = quarter_turns_of(x);
  const int32 n = turns.n + turn;
  const float r = float(turns.fraction * 1.5707963267948966);
  const float t = float(turns.fraction * turns.fraction);
  const float odd = t * polynomial(t, -0.411233515f, 0.0507338382f, -0.00297992653f,
                                   0.000100156263f);
  const float even = t * polynomial(t, -1.23370051f, 0.253668547f, -0.0208555683f,
                                    0.000894330849f);
  const float value = n & 1 ? 1.0f + even : r + r * odd;
  return n & 2 ? -value : value;
}

//@ sin(float): FUSER_DEVICE, sin_or_cos, bits_of, float_of
// At most 1.6 ulp.
FUSER_DEVICE float sin(float x) {
  const float value = sin_or_cos(__builtin_fabsf(x), 0);
  return float_of(bits_of(value) ^ (bits_of(x) & bits_of(-0.0f)));
}

//@ cos(float): FUSER_DEVICE, sin_or_cos
// At most 1.6 ulp.
FUSER_DEVICE float cos(float x) { return sin_or_cos(__builtin_fabsf(x), 1); }

//@ tan(float): FUSER_DEVICE, quarter_turns, sin_quarter, cos_quarter
// At most 0.9 ulp.
FUSER_DEVICE float tan(float x) {
  const quarter_turns turns = quarter_turns_of(x);
  const double s = sin_quarter(turns.fraction), c = cos_quarter(turns.fraction);
  const bool odd = turns.n & 1;
  return float((odd ? -c : s) / (odd ? s : c));
}

//@ asin_tail: FUSER_DEVICE, polynomial
// (asin(x) - x) / x for t = x^2 <= 1/4; error 2.9e-10.
FUSER_DEVICE float asin_tail(float t) {
  return t * polynomial(t, 0.166666597f, 0.0750052184f, 0.0445134118f, 0.0318382084f,
                        0.0143210068f, 0.0376835987f);
}

//@ asin(float): FUSER_DEVICE, asin_tail
// At most 2.1 ulp.
// pi/2 - 2 asin(sqrt((1 - x) / 2)) above 1/2.
FUSER_DEVICE float asin(float x) {
  const float a = __builtin_fabsf(x);
  const bool large = a > 0.5f;
  const float t = large ? 0.5f * (1.0f - a) : a * a;
  const float s = large ? __builtin_sqrtf(t) : a;
  const float tail = s * asin_tail(t);
  const float reflected = (1.57079637f - 2.0f * s) - (2.0f * tail + 4.37113883e-8f);
  return __builtin_copysignf(large ? reflected : s + tail, x);
}

//@ acos(float): FUSER_DEVICE, asin_tail
// At most 1.1 ulp.
FUSER_DEVICE float acos(float x) {
  const float a = __builtin_fabsf(x);
  const bool large = a > 0.5f;
  const float t = large ? 0.5f * (1.0f - a) : a * a;
  const float s = large ? __builtin_sqrtf(t) : x;
  const float value = s + s * asin_tail(t);
  const float small = 1.57079637f - (value + 4.37113883e-8f);
  const float reflected = 3.14159274f - (2.0f * value + 8.74227766e-8f);
  return !large ? small : x < 0.0f ? reflected : 2.0f * value;
}

//@ atan_unit: FUSER_DEVICE, polynomial
// atan(z) for 0 <= z <= 1; error of the fit 2.6e-9.
FUSER_DEVICE float atan_unit(float z) {
  const float t = z * z;
  return z + z * (t * polynomial(t, -0.333332986f, 0.19998531f, -0.142640516f, 0.109511726f,
                                 -0.084004581f, 0.0579060428f, -0.0311262887f, 0.0108868685f,
                                 -0.00178741443f));
}

//@ atan(float): FUSER_DEVICE, atan_unit
// At most 1.5 ulp.
FUSER_DEVICE float atan(float x) {
  const float a = __builtin_fabsf(x);
  const bool large = a > 1.0f;
  const float value = atan_unit(large ? 1.0f / a : a);
  return __builtin_copysignf(large ? 1.57079637f - (value + 4.37113883e-8f) : value, x);
}

//@ atan2(float): FUSER_DEVICE, atan_unit, bits_of
FUSER_DEVICE float atan2(float y, float x) {
  const float a = __builtin_fabsf(x), b = __builtin_fabsf(y);
  const bool steep = b > a;
  const float most = steep ? b : a, least = steep ? a : b;
  const float z = least == most ? 1.0f : least / most;
  const float value = atan_unit(most == 0.0f ? 0.0f : z);
  const float first = steep ? 1.57079637f - (value + 4.37113883e-8f) : value;
  const float upper = bits_of(x) < 0 ? 3.14159274f - (first + 8.74227766e-8f) : first;
  return x != x || y != y ? x + y : __builtin_copysignf(upper, y);
}

// -- single instructions, and libm ----------------------------------------------------------------

//@ abs: FUSER_DEVICE
template <class T>
FUSER_DEVICE T abs(T x) {
  return T(x < 0 ? -x : x);
}

//@ isnan(float): FUSER_DEVICE
FUSER_DEVICE bool isnan(float x) { return x != x; }

//@ isinf(float): FUSER_DEVICE
FUSER_DEVICE bool isinf(float x) { return __builtin_fabsf(x) == __builtin_inff(); }

//@ isfinite(float): FUSER_DEVICE
FUSER_DEVICE bool isfinite(float x) { return __builtin_fabsf(x) < __builtin_inff(); }

//@ signbit(float): FUSER_DEVICE, bits_of
FUSER_DEVICE bool signbit(float x) { return bits_of(x) < 0; }

//@ rsqrt(float): FUSER_DEVICE
// At most 1.5 ulp.
FUSER_DEVICE float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }

//@ isnan(double): FUSER_DEVICE
FUSER_DEVICE bool isnan(double x) { return x != x; }

//@ isinf(double): FUSER_DEVICE
FUSER_DEVICE bool isinf(double x) { return __builtin_fabs(x) == __builtin_inf(); }

//@ isfinite(double): FUSER_DEVICE
FUSER_DEVICE bool isfinite(double x) { return __builtin_fabs(x) < __builtin_inf(); }

//@ signbit(double): FUSER_DEVICE, bits_of
FUSER_DEVICE bool signbit(double x) { return bits_of(x) < 0; }

//@ rsqrt(double): FUSER_DEVICE
FUSER_DEVICE double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }

//@ abs(float): FUSER_DEVICE
FUSER_DEVICE float abs(float x) { return __builtin_fabsf(x); }

//@ ceil(float): FUSER_DEVICE
FUSER_DEVICE float ceil(float x) { return __builtin_ceilf(x); }

//@ floor(float): FUSER_DEVICE
FUSER_DEVICE float floor(float x) { return __builtin_floorf(x); }

//@ trunc(float): FUSER_DEVICE
FUSER_DEVICE float trunc(float x) { return __builtin_truncf(x); }

//@ rint(float): FUSER_DEVICE
FUSER_DEVICE float rint(float x) { return __builtin_rintf(x); }

//@ sqrt(float): FUSER_DEVICE
FUSER_DEVICE float sqrt(float x) { return __builtin_sqrtf(x); }

//@ lgamma(float): FUSER_DEVICE, log(double), polynomial
// At most 0.76 ulp: Stirling's series of y + 8 or more, less the log of y (y + 1) ... (y + 7); with
// y = 1 - x of negative x, whose gamma function is pi / sin(pi x) over that of y.
FUSER_DEVICE float lgamma(float x) {
  const double pi = 3.141592653589793, given = x;
  const bool mirrored = x < 0;
  const double y = mirrored ? 1 - given : given;
  const bool small = y < 8;
  const double outer = y * (y + 7), far = (y + 1) * (y + 6), near = (y + 2) * (y + 5);
  const double product = small ? outer * far * near * ((y + 3) * (y + 4)) : 1.0;
  const double z = small ? y + 8 : y, inverse = 1 / z;
  const double tail = polynomial(inverse * inverse, 0.08333333333333333, -0.002777777777777778,
                                 7.936507936507937e-4, -5.952380952380953e-4,
                                 8.417508417508417e-4, -1.9175269175269176e-3);
  const double stirling = (z - 0.5) * log(z) - z + 0.9189385332046727 + inverse * tail;
  const double turn = (given - __builtin_rint(given)) * pi, square = turn * turn;
  const double curve = polynomial(square, -0.16666666666666666, 0.008333333333333333,
                                  -1.984126984126984e-4, 2.7557319223985893e-6,
                                  -2.505210838544172e-8, 1.6059043836821613e-10,
                                  -7.647163731819816e-13, 2.8114572543455206e-15,
                                  -8.22063524662433e-18, 1.9572941063391263e-20);
  const double sine = __builtin_fabs(turn + turn * square * curve);
  const double rest = log(mirrored ? pi * product / sine : product);
  const float found = mirrored ? rest - stirling : stirling - rest;
  return __builtin_isinf(x) ? __builtin_inff() : x == 1 || x == 2 ? 0.0f : found;
}

//@ nextafter(float): FUSER_DEVICE
FUSER_DEVICE float nextafter(float x, float y) { return __builtin_nextafterf(x, y); }

//@ copysign(float): FUSER_DEVICE
FUSER_DEVICE float copysign(float x, float y) { return __builtin_copysignf(x, y); }

//@ abs(double): FUSER_DEVICE
FUSER_DEVICE double abs(double x) { return __builtin_fabs(x); }

//@ ceil(double): FUSER_DEVICE
FUSER_DEVICE double ceil(double x) { return __builtin_ceil(x); }

//@ floor(double): FUSER_DEVICE
FUSER_DEVICE double floor(double x) { return __builtin_floor(x); }

//@ trunc(double): FUSER_DEVICE
FUSER_DEVICE double trunc(double x) { return __builtin_trunc(x); }

//@ rint(double): FUSER_DEVICE
FUSER_DEVICE double rint(double x) { return __builtin_rint(x); }

//@ sqrt(double): FUSER_DEVICE
FUSER_DEVICE double sqrt(double x) { return __builtin_sqrt(x); }

//@ lgamma(double): FUSER_DEVICE
FUSER_DEVICE double lgamma(double x) { return __builtin_lgamma(x); }

//@ nextafter(double): FUSER_DEVICE
FUSER_DEVICE double nextafter(double x, double y) { return __builtin_nextafter(x, y); }

//@ copysign(double): FUSER_DEVICE
FUSER_DEVICE double copysign(double x, double y) { return __builtin_copysign(x, y); }

//@ hypot(double): FUSER_DEVICE
FUSER_DEVICE double hypot(double x, double y) { return __builtin_hypot(x, y); }

//@ pow(double): FUSER_DEVICE
// Where it vectorizes, g++ makes a plain root of the exponent 0.5, also of -infinity and -0.
FUSER_DEVICE double pow(double x, double y) {
  if (__builtin_constant_p(y) && y == 0.5) {
    return x == -__builtin_inf() ? __builtin_inf() : __builtin_sqrt(x + 0.0);
  }
  return __builtin_pow(x, y);
}

//@ thread_count
extern "C" int omp_get_max_threads();
static inline int thread_count() { return omp_get_max_threads(); }

//@ strip_rows
// How many of `rows` neighbouring rows are done side by side: at most `most`, and so that as many
// strips of this size as threads, or twice, three times, ... as many, are all rows. `outer`: how
// often such rows are done. Strips are whole units.
static inline int strip_rows(long long rows, long long most, long long outer, int threads,
                             long long unit = 16) {
  const long long apart = outer < threads ? threads : 1;
  const long long strips = (rows + most * apart - 1) / (most * apart) * apart;
  const long long strip = ((rows + strips - 1) / strips + unit - 1) / unit * unit;
  return int(strip < most ? strip : most);
}

//@ part_of_round
// How many of `extent` elements each thread does at a time, in whole units: at most `most`, and so
// that threads have equally many in every round.
static inline long long part_of_round(long long extent, int team, long long most, long long unit) {
  const long long parts = ((extent - 1) / (most * team) + 1) * team;
  return ((extent - 1) / parts + unit) / unit * unit;
}

//@ thread_number
extern "C" int omp_get_thread_num();
static inline int thread_number() { return omp_get_thread_num(); }

//@ own_part: thread_number, threads_here
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

//@ join_lanes
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

//@ keep_lanes
// The lanes of a row, of one array, or joined with those of others.
template <int Count, class T, class Join, class... Others>
static inline void keep_lanes(T (&kept)[Count], Join join, const T* lanes, const Others*... others) {
  #pragma omp simd
  for (int lane = 0; lane < Count; ++lane) {
    T all = lanes[lane];
    ((all = join(all, others[lane])), ...);
    kept[lane] = all;
  }
}

//@ join_batch: join_turned, turn_block
// The lanes of as many rows as there are lanes, as one number of each row.
template <int Count, class T, class Join>
static inline void join_batch(T (&joined)[Count], Join join, const T (&lanes)[Count][Count]) {
  typedef typename words<T, Count>::vector vector;
  vector rows[Count];
  for (int row = 0; row < Count; ++row) rows[row] = *reinterpret_cast<const vector*>(lanes[row]);
  join_turned<Count / 2>(rows, join);
  *reinterpret_cast<vector*>(joined) = rows[0];
}

//@ join_rows: join_lanes
// The lanes of as many rows as there are, as one number of type `Kept`: `count` lanes side by side
// in their own type, then these as one, then what is left in the same way by fewer lanes.
template <class Kept, int count = 64, class T, class Join>
static inline Kept join_rows(Join join, const T* lanes, int rows) {
  if constexpr (count > 1) {
    if (rows < count) return join_rows<Kept, count / 4>(join, lanes, rows);
  }
  T held[count];
  for (int lane = 0; lane < count; ++lane) held[lane] = lanes[lane];
  int row = count;
  for (; row + count <= rows; row += count) {
    const T* next = lanes + row;  // a sum of 32 bits might wrap: each lane would be gathered
    #pragma omp simd
    for (int lane = 0; lane < count; ++lane) held[lane] = join(held[lane], next[lane]);
  }
  Kept wide[count];
  #pragma omp simd
  for (int lane = 0; lane < count; ++lane) wide[lane] = Kept(held[lane]);
  const Kept all = join_halves<count>(join, wide);
  if constexpr (count > 1) {
    if (row < rows) return join(all, join_rows<Kept, count / 4>(join, lanes + row, rows - row));
  }
  return all;
}

//@ join_groups
// Each `group` neighbouring lanes as one, which all of them hold then.
template <class T, class Join>
static inline void join_groups(Join join, T* lanes, int rows, long long group) {
  for (long long first = 0; first < rows; first += group) {
    T all = lanes[first];
    for (long long lane = 1; lane < group; ++lane) all = join(all, lanes[first + lane]);
    for (long long lane = 0; lane < group; ++lane) lanes[first + lane] = all;
  }
}

//@ quotient: FUSER_DEVICE
// Of an index that is not negative, exact while index + divisor is below 2^53. Unlike a division of
// integers, it is done in vector lanes, and outside of loops that do not change it: it cannot trap.
template <class Index, class Size>
FUSER_DEVICE Index quotient(Index index, Size divisor) {
  return Index(double(index) / double(divisor));
}

//@ index_from_start
// An index counted from the start; one that is out of range is `size` or more.
static inline unsigned long long index_from_start(long long index, long long size, bool wraps) {
  return static_cast<unsigned long long>(wraps && index < 0 ? index + size : index);
}

//@ index_or
// An index counted from the start, `outside` in place of one that is out of range.
static inline long long index_or(long long outside, unsigned long long at, long long size) {
  return at < static_cast<unsigned long long>(size) ? static_cast<long long>(at) : outside;
}

//@ index_in_range: index_from_start, index_or
// An index in range; `outside` in place of one that is not.
static inline long long index_in_range(long long index, long long size, bool wraps,
                                       long long outside) {
  return index_or(outside, index_from_start(index, size, wraps), size);
}

//@ report_index
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

//@ report_largest: report_index
// Of the largest of the indices of each lane.
template <int lanes>
static inline void report_largest(const unsigned long long (&largest)[lanes], long long size,
                                  bool wraps, long long check, long long* errors) {
  unsigned long long at = 0;
  for (int lane = 0; lane < lanes; ++lane) at = largest[lane] > at ? largest[lane] : at;
  report_index(at, size, wraps, check, errors);
}

//@ checked_index: index_in_range, report_index
// An index in range; one that is not is reported, and `outside` taken instead.
static inline long long checked_index(long long index, long long size, bool wraps,
                                      long long outside, long long check, long long* errors) {
  report_index(index_from_start(index, size, wraps), size, wraps, check, errors);
  return index_in_range(index, size, wraps, outside);
}

//@ list_points
// Which of `points` go to each of `rows`, in order: those of row r are elements first[r] to
// first[r + 1] - 1 of `listed`; those of row -1 are left out. `first` has room for two more than there
// are rows.
static inline void list_points(const int* __restrict row_of, long long points, long long rows,
                               int* __restrict first, int* __restrict listed) {
  for (long long row = 0; row < rows + 2; ++row) first[row] = 0;
  for (long long point = 0; point < points; ++point) {
    if (row_of[point] >= 0) ++first[row_of[point] + 2];
  }
  for (long long row = 2; row < rows + 2; ++row) first[row] += first[row - 1];
  for (long long point = 0; point < points; ++point) {
    if (row_of[point] >= 0) listed[first[row_of[point] + 1]++] = int(point);
  }
}
