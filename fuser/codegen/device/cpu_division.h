// Quotients and rests on a processor, in place of those of common.h: in vectors, which have no
// division of integers. A divisor that is a number of the text is known to the compiler.

//@ high_half: FUSER_DEVICE
// The upper 64 bits of a product.
FUSER_DEVICE unsigned long long high_half(unsigned long long x, unsigned long long y) {
  const unsigned long long low_x = x & 0xffffffff, high_x = x >> 32;
  const unsigned long long low_y = y & 0xffffffff, high_y = y >> 32;
  const unsigned long long middle = high_x * low_y + (low_x * low_y >> 32);
  const unsigned long long other = low_x * high_y + (middle & 0xffffffff);
  return high_x * high_y + (middle >> 32) + (other >> 32);
}

//@ floor_of_known: FUSER_DEVICE, high_half, int64
// x / y rounded down, for a y > 0 that is known: of -1 - x where x < 0, and back, so that what is
// divided is not negative. That of 63 bits is multiplied by 2^(63 + bits) / y, rounded up, which is
// exact for 2^(bits - 1) < y <= 2^bits (Granlund and Montgomery 1994).
template <class T>
FUSER_DEVICE T floor_of_known(T x, T y) {
  if (T(-1) > T(0)) return T(x / y);
  if constexpr (sizeof(T) < sizeof(int64)) {
    const T sign = T(x >> (8 * sizeof(T) - 1));
    return T(T(T(x ^ sign) / y) ^ sign);
  } else {
    if ((y & (y - 1)) == 0) return x >> __builtin_ctzll(y);
    const int bits = 64 - __builtin_clzll(y - 1);
    const unsigned __int128 power = static_cast<unsigned __int128>(1) << (63 + bits);
    const unsigned long long factor = (power + y - 1) / y, sign = x >> 63;
    return T((high_half((x ^ sign) << 1, factor) >> bits) ^ sign);
  }
}

//@ real_quotient: FUSER_DEVICE
// x / y of integers of 32 bits or fewer, in a float that holds it: none that is not whole is rounded
// to a whole one. 0 for y = 0, and what is too large by one becomes the least integer.
template <class T>
FUSER_DEVICE auto real_quotient(T x, T y) {
  if constexpr (sizeof(T) <= 2) {
    const float divisor = y, quotient = float(x) / (divisor == 0.0f ? 1.0f : divisor);
    return divisor == 0.0f ? 0.0f : quotient;
  } else {
    const double divisor = y, quotient = double(x) / (divisor == 0.0 ? 1.0 : divisor);
    const double within = quotient - (quotient == 2147483648.0 ? 4294967296.0 : 0.0);
    return divisor == 0.0 ? 0.0 : within;
  }
}

//@ trunc_div: FUSER_DEVICE, floor_of_known, int32, real_quotient
// Rounds toward zero. x / 0 is 0, and the least integer over -1 wraps: neither traps.
template <class T>
FUSER_DEVICE T trunc_div(T x, T y) {
  if constexpr (sizeof(T) <= sizeof(int32)) {
    return __builtin_constant_p(y) && y > T(0) ? T(x / y) : T(int32(real_quotient(x, y)));
  } else {
    if (__builtin_constant_p(y) && y > T(0)) {
      const T below = floor_of_known(x, y);
      return below + ((x < 0) & (below * y != x));
    }
    const bool negate = y == T(-1);
    const T quotient = T(x / (y == 0 || negate ? T(1) : y));
    return y == 0 ? T(0) : negate ? T(T(0) - x) : quotient;
  }
}

//@ trunc_mod: FUSER_DEVICE, trunc_div
// The rest has the sign of x; x mod 0 is 0.
template <class T>
FUSER_DEVICE T trunc_mod(T x, T y) {
  return T(T(x - trunc_div(x, y) * y) & -T(y != 0));
}

//@ floor_div: FUSER_DEVICE, floor_of_known, int32, real_quotient, trunc_div
// Rounds down; x / 0 is 0.
template <class T>
FUSER_DEVICE T floor_div(T x, T y) {
  if (__builtin_constant_p(y) && y > T(0)) return floor_of_known(x, y);
  if constexpr (sizeof(T) <= sizeof(int32)) {
    const auto quotient = real_quotient(x, y);
    const int32 cut = quotient;
    return T(cut - int32(quotient < cut));
  } else {
    const T cut = trunc_div(x, y), rest = T(x - cut * y);
    return T(cut - T(y != 0 && rest != 0 && (rest < 0) != (y < 0)));
  }
}

//@ floor_mod: FUSER_DEVICE, floor_div
// The rest has the sign of y; x mod 0 is 0.
template <class T>
FUSER_DEVICE T floor_mod(T x, T y) {
  return T(T(x - floor_div(x, y) * y) & -T(y != 0));
}

//@ rest_of_multiples: FUSER_DEVICE
// x less a whole number of times y: what is left is less than y, of either sign, for |x| < 2^(bits + Left)
// y. From the highest scale on, each step leaves less than 3/4 y `scale`. It is exact: a multiple of
// the last place of what it has fewer than 2^53 of, and so is a product that is not rounded.
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__FP_FAST_FMA)
static constexpr int rest_bits = 50;
FUSER_DEVICE double less_product(double x, double y, double z) { return __builtin_fma(-y, z, x); }
#else
static constexpr int rest_bits = 28;  // with the 24 of a float's divisor
FUSER_DEVICE double less_product(double x, double y, double z) { return x - y * z; }
#endif
template <int Left>
FUSER_DEVICE double rest_of_multiples(double x, double y, double reciprocal) {
  const double scale = __builtin_ldexp(1.0, Left);
  const double often = __builtin_rint(x * (reciprocal * (1.0 / scale)));
  const double rest = less_product(x, often, y * scale);
  if constexpr (Left > 0) return rest_of_multiples<Left - rest_bits>(rest, y, reciprocal);
  return rest;
}
// The first scale of quotients of so many bits.
constexpr int first_scale(int bits) {
  return bits <= rest_bits ? 0 : (bits - 1) / rest_bits * rest_bits;
}

//@ fmod(float): FUSER_DEVICE, rest_of_multiples
// Exact. Quotients have up to 277 bits, and by a known divisor that is not small up to 150.
FUSER_DEVICE float fmod(float dividend, float divisor) {
  const double x = __builtin_fabsf(dividend), y = __builtin_fabsf(divisor), reciprocal = 1.0 / y;
  const bool short_quotient = __builtin_constant_p(divisor) && y > 0x1p-22 && y < 0x1p128;
  const double signed_rest = short_quotient ? rest_of_multiples<first_scale(150)>(x, y, reciprocal)
                                            : rest_of_multiples<first_scale(277)>(x, y, reciprocal);
  const double rest = signed_rest < 0.0 ? signed_rest + y : signed_rest;
  const bool is_whole = (x < __builtin_inf()) & (y == __builtin_inf());
  return __builtin_copysignf(float(is_whole ? x : rest), dividend);
}

//@ fmod(double): FUSER_DEVICE
// Exact. g++ calls a function of a vector in place of libm's of a number, as the vector ABI of x86-64
// names it: for quotients below 2^52 what is left is one product away, which is not rounded. (That of
// two numbers may be rounded up to a whole one, never down from it.) libm has the others, and is slow.
#if defined(__x86_64__) && defined(__FMA__) && !defined(__clang__)
extern "C" __attribute__((simd("notinbranch"), const)) double fmod_in_vectors(double x, double y)
    __asm__("fmod");
template <class Vector>
FUSER_DEVICE Vector fmod_of_vectors(Vector dividend, Vector divisor) {
  constexpr int count = sizeof(Vector) / sizeof(double);
  double rests[count];
  bool beyond = false;
  for (int lane = 0; lane < count; ++lane) {
    const double x = __builtin_fabs(dividend[lane]), y = __builtin_fabs(divisor[lane]);
    const double often = __builtin_trunc(x / y), rest = __builtin_fma(-often, y, x);
    rests[lane] = __builtin_copysign(rest < 0.0 ? rest + y : rest, dividend[lane]);
    beyond |= !((often < 0x1p52) & (y < __builtin_inf()));
  }
  for (int lane = 0; beyond && lane < count; ++lane) {
    rests[lane] = __builtin_fmod(dividend[lane], divisor[lane]);
  }
  Vector results;
  __builtin_memcpy(&results, rests, sizeof(results));
  return results;
}
#define FUSER_VECTOR_FMOD(name, bytes)                                                      \
  typedef double name##_vector __attribute__((vector_size(bytes)));                         \
  extern "C" __attribute__((visibility("hidden"))) name##_vector name##vv_fmod(             \
      name##_vector x, name##_vector y) {                                                   \
    return fmod_of_vectors(x, y);                                                           \
  }
FUSER_VECTOR_FMOD(_ZGVbN2, 16)
FUSER_VECTOR_FMOD(_ZGVcN4, 32)
FUSER_VECTOR_FMOD(_ZGVdN4, 32)
#if defined(__AVX512F__)
FUSER_VECTOR_FMOD(_ZGVeN8, 64)
#endif
FUSER_DEVICE double fmod(double x, double y) { return fmod_in_vectors(x, y); }
#else
FUSER_DEVICE double fmod(double x, double y) { return __builtin_fmod(x, y); }
#endif

//@ floor_div(float): FUSER_DEVICE
// The floor of the exact quotient: 1 / 0.1 is 10, but 0.1, which is a little more than a tenth, is in
// 1 only 9 times. No quotient of floats that is not whole becomes a whole one in double, but those
// of which a float has no last place of 1.
FUSER_DEVICE float floor_div(float x, float y) {
  const double quotient = double(x) / double(y);
  const bool just_below = (quotient == 0.0) & (x != 0.0f) & ((x < 0.0f) != (y < 0.0f));
  const float below = just_below ? -1.0f : float(__builtin_floor(quotient));
  const bool is_nan = (__builtin_fabsf(x) == __builtin_inff()) & (y != 0.0f);
  return is_nan ? __builtin_nanf("") : below;
}
