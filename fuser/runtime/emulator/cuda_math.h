// CUDA's mathematical functions by the C library's, and its intrinsics on integers and bits.
#pragma once

#define FUSER_UNARY(name)                                              \
  inline float name(float x) { return __builtin_##name##f(x); }        \
  inline double name(double x) { return __builtin_##name(x); }         \
  inline float name##f(float x) { return __builtin_##name##f(x); }
#define FUSER_BINARY(name)                                                         \
  inline float name(float x, float y) { return __builtin_##name##f(x, y); }        \
  inline double name(double x, double y) { return __builtin_##name(x, y); }        \
  inline float name##f(float x, float y) { return __builtin_##name##f(x, y); }
FUSER_UNARY(sqrt)
FUSER_UNARY(exp)
FUSER_UNARY(exp2)
FUSER_UNARY(expm1)
FUSER_UNARY(log)
FUSER_UNARY(log2)
FUSER_UNARY(log10)
FUSER_UNARY(log1p)
FUSER_UNARY(sin)
FUSER_UNARY(cos)
FUSER_UNARY(tan)
FUSER_UNARY(sinh)
FUSER_UNARY(cosh)
FUSER_UNARY(tanh)
FUSER_UNARY(asin)
FUSER_UNARY(acos)
FUSER_UNARY(atan)
FUSER_UNARY(asinh)
FUSER_UNARY(acosh)
FUSER_UNARY(atanh)
FUSER_UNARY(erf)
FUSER_UNARY(erfc)
FUSER_UNARY(lgamma)
FUSER_UNARY(ceil)
FUSER_UNARY(floor)
FUSER_UNARY(trunc)
FUSER_UNARY(rint)
FUSER_UNARY(round)
FUSER_BINARY(pow)
FUSER_BINARY(atan2)
FUSER_BINARY(fmod)
FUSER_BINARY(remainder)
FUSER_BINARY(nextafter)
FUSER_BINARY(copysign)
FUSER_BINARY(fmin)
FUSER_BINARY(fmax)
FUSER_BINARY(hypot)
#undef FUSER_UNARY
#undef FUSER_BINARY

inline float fabs(float x) { return __builtin_fabsf(x); }
inline double fabs(double x) { return __builtin_fabs(x); }
inline float fabsf(float x) { return __builtin_fabsf(x); }
inline float abs(float x) { return __builtin_fabsf(x); }
inline double abs(double x) { return __builtin_fabs(x); }
inline int abs(int x) { return x < 0 ? -x : x; }
inline long long abs(long long x) { return x < 0 ? -x : x; }
inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
inline float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline float rsqrt(float x) { return static_cast<float>(1 / __builtin_sqrt(x)); }
inline double rsqrt(double x) { return 1 / __builtin_sqrt(x); }

inline bool isnan(float x) { return __builtin_isnan(x); }
inline bool isnan(double x) { return __builtin_isnan(x); }
inline bool isinf(float x) { return __builtin_isinf(x); }
inline bool isinf(double x) { return __builtin_isinf(x); }
inline bool isfinite(float x) { return __builtin_isfinite(x); }
inline bool isfinite(double x) { return __builtin_isfinite(x); }
inline bool signbit(float x) { return __builtin_signbit(x); }
inline bool signbit(double x) { return __builtin_signbit(x); }

#define FUSER_MINMAX(T)                                \
  inline T min(T x, T y) { return y < x ? y : x; }     \
  inline T max(T x, T y) { return x < y ? y : x; }
FUSER_MINMAX(int)
FUSER_MINMAX(unsigned int)
FUSER_MINMAX(long long)
FUSER_MINMAX(unsigned long long)
#undef FUSER_MINMAX
inline float min(float x, float y) { return fmin(x, y); }
inline float max(float x, float y) { return fmax(x, y); }
inline double min(double x, double y) { return fmin(x, y); }
inline double max(double x, double y) { return fmax(x, y); }

// The inverses of erfc and erf, which the C library lacks: a start within 5e-4 by a rational in
// sqrt(-2 log(y/2)), then three steps of Halley's method. Each uses the other where its own
// operand has lost digits of the result.
inline double erfinv(double y);
inline double erfcinv(double y) {
  if (!(y >= 0 && y <= 2)) return __builtin_nan("");
  if (y == 0 || y == 2) return y == 0 ? __builtin_inf() : -__builtin_inf();
  if (y >= 0.5 && y <= 1.5) return erfinv(1 - y);
  const double tail = y < 1 ? y : 2 - y;
  const double t = __builtin_sqrt(-2 * __builtin_log(tail / 2));
  double x = 0.70711 * (t - (2.30753 + t * 0.27061) / (1 + t * (0.99229 + t * 0.04481)));
  for (int step = 0; step < 3; ++step) {
    const double error = __builtin_erfc(x) - tail;
    x += error / (1.1283791670955126 * __builtin_exp(-x * x) - x * error);
  }
  return y < 1 ? x : -x;
}
inline double erfinv(double y) {
  if (__builtin_fabs(y) > 0.5) return y > 0 ? erfcinv(1 - y) : -erfcinv(1 + y);
  double x = y * 0.886;
  for (int step = 0; step < 5; ++step) {
    const double error = __builtin_erf(x) - y;
    x -= error / (1.1283791670955126 * __builtin_exp(-x * x) + x * error);
  }
  return x;
}
inline float erfcinv(float y) { return static_cast<float>(erfcinv(static_cast<double>(y))); }
inline float erfinv(float y) { return static_cast<float>(erfinv(static_cast<double>(y))); }

// -- bits --------------------------------------------------------------------------------------

inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
inline int __popc(unsigned int x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
