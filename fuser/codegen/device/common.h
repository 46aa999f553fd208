// The part of the device library that every target shares: truth values, integers, minimum and
// maximum, complex numbers. It is C++17 without headers and without compiler builtins, for NVRTC
// too.
//
// FUSER_DEVICE and FUSER_MEMBER are the target's qualifiers of functions and of member functions.
// The functions of real numbers that are used here have an empty section at the end: they belong
// to the target's language, or to its own header, whose section replaces the empty one.
//
// Functions of complex64 compute in complex128: accurate, and nothing overflows on the way.

// -- truth values ---------------------------------------------------------------------------------

//@ truth: FUSER_DEVICE
// A truth value in memory, where any byte but 0 is true. As a comparison: g++ vectorizes no choice
// by the value itself.
FUSER_DEVICE bool truth(const bool& stored) {
  return reinterpret_cast<const unsigned char&>(stored) != 0;
}

//@ where: FUSER_DEVICE
// Both numbers are read, whichever is chosen: g++ does not vectorize a parameter that is read under
// a condition. Written without ?:, which takes the address of one of two 16-bit floats.
template <class T>
FUSER_DEVICE T where(bool chosen, T x, T y) {
  T taken = y;
  if (chosen) taken = x;
  return taken;
}

// -- floats of 4 bits -----------------------------------------------------------------------------

//@ float4_code: FUSER_DEVICE, float4_e2m1fn
// Its 4 bits: a sign, 2 bits of exponent and 1 of mantissa.
FUSER_DEVICE unsigned char float4_code(float4_e2m1fn x) {
  const int sign = x.bits >> 4 & 8, size = x.bits & 0x7f;
  return (unsigned char)(sign | (size > 48 ? (size - 48) >> 2 : size >> 5));
}

//@ float4_value: FUSER_DEVICE, float4_e2m1fn
// Of the lower 4 bits.
FUSER_DEVICE float4_e2m1fn float4_value(int code) {
  const int sign = (code & 8) << 4, size = code & 7;
  float4_e2m1fn x;
  x.bits = (unsigned char)(sign | (4 * size + (size < 1 ? 0 : size < 2 ? 44 : 48)));
  return x;
}

//@ float4_pair: FUSER_DEVICE, float4_code, float4_e2m1fn_x2
FUSER_DEVICE float4_e2m1fn_x2 float4_pair(float4_e2m1fn low, float4_e2m1fn high) {
  float4_e2m1fn_x2 pair;
  pair.bits = (unsigned char)(float4_code(low) | float4_code(high) << 4);
  return pair;
}

//@ float4_low: FUSER_DEVICE, float4_value, float4_e2m1fn_x2
FUSER_DEVICE float4_e2m1fn float4_low(float4_e2m1fn_x2 pair) { return float4_value(pair.bits); }

//@ float4_high: FUSER_DEVICE, float4_value, float4_e2m1fn_x2
FUSER_DEVICE float4_e2m1fn float4_high(float4_e2m1fn_x2 pair) { return float4_value(pair.bits >> 4); }

// -- integers -------------------------------------------------------------------------------------

//@ clamped: FUSER_DEVICE
// The nearest of 0 to size - 1: a maximum and a minimum, which compilers do in vector lanes.
template <class Index, class Size>
FUSER_DEVICE Index clamped(Index index, Size size) {
  const Index low = index < 0 ? Index(0) : index;
  const Index top = Index(size - 1);
  return low < top ? low : top;
}

//@ quotient: FUSER_DEVICE
// Of an index that is not negative.
template <class Index, class Size>
FUSER_DEVICE Index quotient(Index index, Size divisor) {
  return index / divisor;
}

//@ rest: FUSER_DEVICE, quotient
// Of an index that is not negative.
template <class Index, class Size>
FUSER_DEVICE Index rest(Index index, Size divisor) {
  return index - quotient(index, divisor) * divisor;
}

//@ trunc_div: FUSER_DEVICE
// Rounds toward zero. x / 0 is 0, and the least integer over -1 wraps: neither traps.
template <class T>
FUSER_DEVICE T trunc_div(T x, T y) {
  const bool negate = T(-1) < T(0) && y == T(-1);
  const T quotient = T(x / (y == 0 || negate ? T(1) : y));
  return y == 0 ? T(0) : negate ? T(T(0) - x) : quotient;
}

//@ trunc_mod: FUSER_DEVICE
// The rest has the sign of x; x mod 0 is 0.
template <class T>
FUSER_DEVICE T trunc_mod(T x, T y) {
  const bool divides = y == 0 || (T(-1) < T(0) && y == T(-1));
  return divides ? T(0) : T(x % (divides ? T(1) : y));
}

//@ floor_mod: FUSER_DEVICE, trunc_mod
// The rest has the sign of y; x mod 0 is 0.
template <class T>
FUSER_DEVICE T floor_mod(T x, T y) {
  const T rest = trunc_mod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? T(rest + y) : rest;
}

//@ floor_div: FUSER_DEVICE, trunc_div, trunc_mod
// Rounds down; x / 0 is 0.
template <class T>
FUSER_DEVICE T floor_div(T x, T y) {
  const T rest = trunc_mod(x, y);
  return T(trunc_div(x, y) - T(rest != 0 && (rest < 0) != (y < 0)));
}

//@ shift_left: FUSER_DEVICE
// A shift by less than 0, or by the width or more, gives 0.
template <class T>
FUSER_DEVICE T shift_left(T x, T by) {
  const int width = 8 * sizeof(T);
  const bool inside = by >= 0 && by < width;
  return inside ? T(x << (inside ? by : T(0))) : T(0);
}

//@ shift_right: FUSER_DEVICE
// A shift by less than 0, or by the width or more, leaves nothing but the sign.
template <class T>
FUSER_DEVICE T shift_right(T x, T by) {
  const int width = 8 * sizeof(T);
  const bool inside = by >= 0 && by < width;
  return inside ? T(x >> (inside ? by : T(0))) : x < 0 ? T(-1) : T(0);
}

//@ logical_shift_right: FUSER_DEVICE
// Shifts zeros in; a shift by less than 0, or by the width or more, gives 0.
template <class T>
FUSER_DEVICE T logical_shift_right(T x, T by) {
  const int width = 8 * sizeof(T);
  const bool inside = by > 0 && by < width;
  const T count = inside ? by : T(1);
  const T shifted = T((x >> count) & ~(T(-1) << (width - count)));
  return inside ? shifted : by == 0 ? x : T(0);
}

//@ gcd: FUSER_DEVICE, trunc_mod
// Euclid's algorithm on absolute values, where the least integer stays as it is.
template <class T>
FUSER_DEVICE T gcd(T x, T y) {
  T a = T(x < 0 ? -x : x), b = T(y < 0 ? -y : y);
  while (a != 0) {
    const T rest = trunc_mod(b, a);
    b = a;
    a = rest;
  }
  return b;
}

//@ pow: FUSER_DEVICE
// Integer powers wrap. A negative exponent gives 0, but for the bases 1 and -1.
template <class T>
FUSER_DEVICE T pow(T base, T exponent) {
  if (exponent < 0) return base == 1 ? T(1) : base != T(-1) ? T(0) : exponent & 1 ? T(-1) : T(1);
  T result = 1;
  while (exponent != 0) {
    if (exponent & 1) result = T(result * base);
    base = T(base * base);
    exponent = T(exponent >> 1);
  }
  return result;
}

// -- real numbers ---------------------------------------------------------------------------------

//@ minimum: FUSER_DEVICE
// NaN wins, from either side. The smaller first: that is one instruction, and whether a number is NaN
// is foreseen, where both in one condition are a branch that is not.
template <class T>
FUSER_DEVICE T minimum(T x, T y) {
  const T smaller = y < x ? y : x;
  return y != y ? y : smaller;
}

//@ maximum: FUSER_DEVICE
template <class T>
FUSER_DEVICE T maximum(T x, T y) {
  const T larger = y > x ? y : x;
  return y != y ? y : larger;
}

//@ sign: FUSER_DEVICE
// 0 for NaN, as in torch.
template <class T>
FUSER_DEVICE T sign(T x) {
  return T((x > T(0)) - (x < T(0)));
}

//@ floor_mod(float): FUSER_DEVICE, fmod(float)
FUSER_DEVICE float floor_mod(float x, float y) {
  const float rest = fmod(x, y);
  return (rest != 0) & ((rest < 0) != (y < 0)) ? rest + y : rest;
}

//@ floor_mod(double): FUSER_DEVICE, fmod(double)
FUSER_DEVICE double floor_mod(double x, double y) {
  const double rest = fmod(x, y);
  return (rest != 0) & ((rest < 0) != (y < 0)) ? rest + y : rest;
}

//@ floor_div_real: FUSER_DEVICE
// The floor of the exact quotient: 1 / 0.1 is 10, but 0.1, which is a little more than a tenth, is in
// 1 only 9 times. `rest` is the rest of x that has its sign; without it, the quotient is a whole number
// but for rounding.
template <class T>
FUSER_DEVICE T floor_div_real(T x, T y, T rest) {
  const T cut = (x - rest) / y, exact = x / y;
  const T whole = rest != T(0) && (rest < T(0)) != (y < T(0)) ? cut - T(1) : cut;
  const T below = floor(whole);
  const T found = whole - below > T(0.5) ? below + T(1) : below;
  return y == T(0) ? exact : whole == T(0) ? copysign(T(0), exact) : found;
}

//@ floor_div(float): FUSER_DEVICE, fmod(float), floor(float), copysign(float), floor_div_real
FUSER_DEVICE float floor_div(float x, float y) { return floor_div_real(x, y, fmod(x, y)); }

//@ floor_div(double): FUSER_DEVICE, fmod(double), floor(double), copysign(double), floor_div_real
FUSER_DEVICE double floor_div(double x, double y) { return floor_div_real(x, y, fmod(x, y)); }

//@ lerp: FUSER_DEVICE
// From the nearer end, so that both ends are met exactly.
template <class T>
FUSER_DEVICE T lerp(T from, T to, T weight) {
  const bool near = weight > T(-0.5) && weight < T(0.5);
  return near ? from + weight * (to - from) : to + (weight - T(1)) * (to - from);
}

//@ sigmoid(float): FUSER_DEVICE, exp(float)
FUSER_DEVICE float sigmoid(float x) { return 1 / (1 + exp(-x)); }

//@ sigmoid(double): FUSER_DEVICE, exp(double)
FUSER_DEVICE double sigmoid(double x) { return 1 / (1 + exp(-x)); }

//@ silu(float): FUSER_DEVICE, exp(float)
FUSER_DEVICE float silu(float x) { return x / (1 + exp(-x)); }

//@ silu(double): FUSER_DEVICE, exp(double)
FUSER_DEVICE double silu(double x) { return x / (1 + exp(-x)); }

// -- complex numbers ------------------------------------------------------------------------------

//@ complex64_parts
// A complex number as a kernel is given it: nothing but its parts.
struct complex64_parts {
  float re, im;
};

//@ complex128_parts
struct complex128_parts {
  double re, im;
};

//@ complex64: FUSER_DEVICE, FUSER_MEMBER
// Copies are spelled out because g++ vectorizes no loop that assigns whole structs.
struct complex64 {
  float re, im;

  complex64() = default;
  FUSER_MEMBER complex64(const complex64& z) : re(z.re), im(z.im) {}
  FUSER_MEMBER complex64(float real, float imag = 0) : re(real), im(imag) {}
  template <class Complex, class = decltype(Complex::im)>
  FUSER_MEMBER explicit complex64(Complex z) : re(float(z.re)), im(float(z.im)) {}
  FUSER_MEMBER complex64& operator=(const complex64& z) {
    re = z.re;
    im = z.im;
    return *this;
  }

  // A real type takes the real part, as in torch; bool asks for any part.
  template <class Real>
  FUSER_MEMBER explicit operator Real() const {
    return Real(re);
  }
  FUSER_MEMBER explicit operator bool() const { return re != 0 || im != 0; }
};
FUSER_DEVICE complex64 operator-(complex64 z) { return {-z.re, -z.im}; }
FUSER_DEVICE complex64 operator+(complex64 z, complex64 w) { return {z.re + w.re, z.im + w.im}; }
FUSER_DEVICE complex64 operator-(complex64 z, complex64 w) { return {z.re - w.re, z.im - w.im}; }
FUSER_DEVICE complex64 operator*(complex64 z, complex64 w) {
  return {z.re * w.re - z.im * w.im, z.re * w.im + z.im * w.re};
}
// Smith's method, as in torch: nothing is undefined because one part of w is infinite. Both are
// turned so that the larger part of w is real, which takes no branch; in double nothing overflows.
FUSER_DEVICE complex64 operator/(complex64 z, complex64 w) {
  const bool turn = (w.re < 0 ? -w.re : w.re) < (w.im < 0 ? -w.im : w.im);
  const bool zero = w.re == 0 && w.im == 0;
  const double a = turn ? z.im : z.re, b = turn ? -z.re : z.im;
  const double c = zero ? 1 : turn ? w.im : w.re, d = turn ? -w.re : w.im;
  const double ratio = d / c, inverse = 1 / (zero ? 0 : c + d * ratio);
  const double re = a + (zero ? 0 : b * ratio), im = b - (zero ? 0 : a * ratio);
  return {float(re * inverse), float(im * inverse)};
}
FUSER_DEVICE bool operator==(complex64 z, complex64 w) { return z.re == w.re && z.im == w.im; }
FUSER_DEVICE bool operator!=(complex64 z, complex64 w) { return z.re != w.re || z.im != w.im; }

//@ complex128: FUSER_DEVICE, FUSER_MEMBER
struct complex128 {
  double re, im;

  complex128() = default;
  FUSER_MEMBER complex128(const complex128& z) : re(z.re), im(z.im) {}
  FUSER_MEMBER complex128(double real, double imag = 0) : re(real), im(imag) {}
  template <class Complex, class = decltype(Complex::im)>
  FUSER_MEMBER explicit complex128(Complex z) : re(z.re), im(z.im) {}
  FUSER_MEMBER complex128& operator=(const complex128& z) {
    re = z.re;
    im = z.im;
    return *this;
  }

  template <class Real>
  FUSER_MEMBER explicit operator Real() const {
    return Real(re);
  }
  FUSER_MEMBER explicit operator bool() const { return re != 0 || im != 0; }
};
FUSER_DEVICE complex128 operator-(complex128 z) { return {-z.re, -z.im}; }
FUSER_DEVICE complex128 operator+(complex128 z, complex128 w) { return {z.re + w.re, z.im + w.im}; }
FUSER_DEVICE complex128 operator-(complex128 z, complex128 w) { return {z.re - w.re, z.im - w.im}; }
FUSER_DEVICE complex128 operator*(complex128 z, complex128 w) {
  return {z.re * w.re - z.im * w.im, z.re * w.im + z.im * w.re};
}
// Smith's method, so that no square overflows. What is divided by 0 is by the positive one.
FUSER_DEVICE complex128 operator/(complex128 z, complex128 w) {
  const double c = w.re > 0 ? w.re : 0 - w.re, d = w.im > 0 ? w.im : 0 - w.im;
  if (c == 0 && d == 0) return {z.re / c, z.im / d};
  if (c >= d) {
    const double ratio = w.im / w.re, norm = w.re + w.im * ratio;
    return {(z.re + z.im * ratio) / norm, (z.im - z.re * ratio) / norm};
  }
  const double ratio = w.re / w.im, norm = w.re * ratio + w.im;
  return {(z.re * ratio + z.im) / norm, (z.im * ratio - z.re) / norm};
}
FUSER_DEVICE bool operator==(complex128 z, complex128 w) { return z.re == w.re && z.im == w.im; }
FUSER_DEVICE bool operator!=(complex128 z, complex128 w) { return z.re != w.re || z.im != w.im; }

//@ make_complex(float): complex64
FUSER_DEVICE complex64 make_complex(float real, float imag) { return {real, imag}; }

//@ make_complex(double): complex128
FUSER_DEVICE complex128 make_complex(double real, double imag) { return {real, imag}; }

//@ real(complex64): complex64
FUSER_DEVICE float real(complex64 z) { return z.re; }

//@ real(complex128): complex128
FUSER_DEVICE double real(complex128 z) { return z.re; }

//@ imag(complex64): complex64
FUSER_DEVICE float imag(complex64 z) { return z.im; }

//@ imag(complex128): complex128
FUSER_DEVICE double imag(complex128 z) { return z.im; }

//@ isnan(complex64): complex64, isnan(float)
FUSER_DEVICE bool isnan(complex64 z) { return isnan(z.re) || isnan(z.im); }

//@ isnan(complex128): complex128, isnan(double)
FUSER_DEVICE bool isnan(complex128 z) { return isnan(z.re) || isnan(z.im); }

//@ isinf(complex64): complex64, isinf(float)
FUSER_DEVICE bool isinf(complex64 z) { return isinf(z.re) || isinf(z.im); }

//@ isinf(complex128): complex128, isinf(double)
FUSER_DEVICE bool isinf(complex128 z) { return isinf(z.re) || isinf(z.im); }

//@ isfinite(complex64): complex64, isfinite(float)
FUSER_DEVICE bool isfinite(complex64 z) { return isfinite(z.re) && isfinite(z.im); }

//@ isfinite(complex128): complex128, isfinite(double)
FUSER_DEVICE bool isfinite(complex128 z) { return isfinite(z.re) && isfinite(z.im); }

//@ lerp(complex64): complex64
FUSER_DEVICE complex64 lerp(complex64 from, complex64 to, complex64 weight) {
  const bool near = weight.re * weight.re + weight.im * weight.im < 0.25f;
  return near ? from + weight * (to - from) : to + (weight - 1) * (to - from);
}

//@ lerp(complex128): complex128
FUSER_DEVICE complex128 lerp(complex128 from, complex128 to, complex128 weight) {
  const bool near = weight.re * weight.re + weight.im * weight.im < 0.25;
  return near ? from + weight * (to - from) : to + (weight - 1) * (to - from);
}

//@ abs(complex64): complex64, sqrt(double), abs(float), isinf(float)
FUSER_DEVICE float abs(complex64 z) {
  const float finite = float(sqrt(double(z.re) * z.re + double(z.im) * z.im));
  return isinf(z.re) ? abs(z.re) : isinf(z.im) ? abs(z.im) : finite;
}

//@ abs(complex128): complex128, hypot(double)
FUSER_DEVICE double abs(complex128 z) { return hypot(z.re, z.im); }

//@ exp(complex128): complex128, exp(double), cos(double), sin(double), isfinite(double)
// e^-inf is 0 whatever the angle.
FUSER_DEVICE complex128 exp(complex128 z) {
  const double scale = exp(z.re);
  if (z.im == 0 || (scale == 0 && !isfinite(z.im))) return {scale, scale == 0 ? 0 : z.im};
  return {scale * cos(z.im), scale * sin(z.im)};
}

//@ exp(complex64): complex64, exp(complex128)
FUSER_DEVICE complex64 exp(complex64 z) { return complex64(exp(complex128(z))); }

//@ expm1(complex128): complex128, expm1(double), exp(double), cos(double), sin(double)
FUSER_DEVICE complex128 expm1(complex128 z) {
  const double chord = sin(z.im / 2);
  return {expm1(z.re) * cos(z.im) - 2 * chord * chord, exp(z.re) * sin(z.im)};
}

//@ expm1(complex64): complex64, expm1(complex128)
FUSER_DEVICE complex64 expm1(complex64 z) { return complex64(expm1(complex128(z))); }

//@ log_modulus: FUSER_DEVICE, abs(double), log(double), log1p(double), hypot(double)
// log |x + iy|; near |x + iy| = 1 by log1p of |x + iy|^2 - 1.
FUSER_DEVICE double log_modulus(double x, double y) {
  const double a = abs(x), b = abs(y), most = a > b ? a : b, least = a > b ? b : a;
  const double r = hypot(x, y);
  if (r < 0.5 || !(r < 2)) return log(r);
  return 0.5 * log1p((most - 1) * (most + 1) + least * least);
}

//@ log(complex128): complex128, log_modulus, atan2(double)
FUSER_DEVICE complex128 log(complex128 z) { return {log_modulus(z.re, z.im), atan2(z.im, z.re)}; }

//@ log(complex64): complex64, log(complex128)
FUSER_DEVICE complex64 log(complex64 z) { return complex64(log(complex128(z))); }

//@ log2(complex128): complex128, log(complex128)
FUSER_DEVICE complex128 log2(complex128 z) {
  const complex128 natural = log(z);
  return {natural.re * 1.4426950408889634, natural.im * 1.4426950408889634};
}

//@ log2(complex64): complex64, log2(complex128)
FUSER_DEVICE complex64 log2(complex64 z) { return complex64(log2(complex128(z))); }

//@ log10(complex128): complex128, log(complex128)
FUSER_DEVICE complex128 log10(complex128 z) {
  const complex128 natural = log(z);
  return {natural.re * 0.43429448190325183, natural.im * 0.43429448190325183};
}

//@ log10(complex64): complex64, log10(complex128)
FUSER_DEVICE complex64 log10(complex64 z) { return complex64(log10(complex128(z))); }

//@ log1p(complex128): complex128, log_modulus, abs(double), log1p(double), atan2(double)
FUSER_DEVICE complex128 log1p(complex128 z) {
  const bool small = abs(z.re) < 0.5 && abs(z.im) < 0.5;
  const double angle = atan2(z.im, 1 + z.re);
  if (!small) return {log_modulus(1 + z.re, z.im), angle};
  return {0.5 * log1p(z.re * (2 + z.re) + z.im * z.im), angle};
}

//@ log1p(complex64): complex64, log1p(complex128)
FUSER_DEVICE complex64 log1p(complex64 z) { return complex64(log1p(complex128(z))); }

//@ sqrt(complex128): complex128, sqrt(double), hypot(double), copysign(double), isinf(double)
FUSER_DEVICE complex128 sqrt(complex128 z) {
  const double height = copysign(z.im, 1.0);
  if (isinf(height)) return {height, z.im};
  const double large = sqrt(copysign(z.re, 1.0) / 2 + hypot(z.re / 2, height / 2));
  if (large == 0) return {0, z.im};
  if (z.re < 0) return {height / (2 * large), copysign(large, z.im)};
  return {large, z.im / (2 * large)};
}

//@ sqrt(complex64): complex64, sqrt(complex128)
FUSER_DEVICE complex64 sqrt(complex64 z) { return complex64(sqrt(complex128(z))); }

//@ rsqrt(complex128): complex128, sqrt(complex128)
FUSER_DEVICE complex128 rsqrt(complex128 z) { return 1 / sqrt(z); }

//@ rsqrt(complex64): complex64, rsqrt(complex128)
FUSER_DEVICE complex64 rsqrt(complex64 z) { return complex64(rsqrt(complex128(z))); }

//@ pow(complex128): complex128, exp(complex128), log(complex128)
FUSER_DEVICE complex128 pow(complex128 base, complex128 exponent) {
  return exp(exponent * log(base));
}

//@ pow(complex64): complex64, pow(complex128)
FUSER_DEVICE complex64 pow(complex64 base, complex64 exponent) {
  return complex64(pow(complex128(base), complex128(exponent)));
}

//@ sigmoid(complex128): complex128, exp(complex128)
FUSER_DEVICE complex128 sigmoid(complex128 z) { return 1 / (1 + exp(-z)); }

//@ sigmoid(complex64): complex64, sigmoid(complex128)
FUSER_DEVICE complex64 sigmoid(complex64 z) { return complex64(sigmoid(complex128(z))); }

//@ silu(complex128): complex128, exp(complex128)
FUSER_DEVICE complex128 silu(complex128 z) { return z / (1 + exp(-z)); }

//@ silu(complex64): complex64, silu(complex128)
FUSER_DEVICE complex64 silu(complex64 z) { return complex64(silu(complex128(z))); }

//@ product_or_zero: copysign(double)
// x * y; 0 where one of them is, even if the other is infinite or NaN.
FUSER_DEVICE double product_or_zero(double x, double y) {
  return x == 0 || y == 0 ? copysign(0.0, x) * copysign(1.0, y) : x * y;
}

//@ sinh(complex128): complex128, product_or_zero, sinh(double), cosh(double), sin(double), cos(double)
FUSER_DEVICE complex128 sinh(complex128 z) {
  return {product_or_zero(sinh(z.re), cos(z.im)), product_or_zero(cosh(z.re), sin(z.im))};
}

//@ sinh(complex64): complex64, sinh(complex128)
FUSER_DEVICE complex64 sinh(complex64 z) { return complex64(sinh(complex128(z))); }

//@ cosh(complex128): complex128, product_or_zero, sinh(double), cosh(double), sin(double), cos(double)
FUSER_DEVICE complex128 cosh(complex128 z) {
  return {product_or_zero(cosh(z.re), cos(z.im)), product_or_zero(sinh(z.re), sin(z.im))};
}

//@ cosh(complex64): complex64, cosh(complex128)
FUSER_DEVICE complex64 cosh(complex64 z) { return complex64(cosh(complex128(z))); }

//@ sin(complex128): complex128, product_or_zero, sinh(double), cosh(double), sin(double), cos(double)
FUSER_DEVICE complex128 sin(complex128 z) {
  return {product_or_zero(sin(z.re), cosh(z.im)), product_or_zero(cos(z.re), sinh(z.im))};
}

//@ sin(complex64): complex64, sin(complex128)
FUSER_DEVICE complex64 sin(complex64 z) { return complex64(sin(complex128(z))); }

//@ cos(complex128): complex128, product_or_zero, sinh(double), cosh(double), sin(double), cos(double)
FUSER_DEVICE complex128 cos(complex128 z) {
  return {product_or_zero(cos(z.re), cosh(z.im)), -product_or_zero(sin(z.re), sinh(z.im))};
}

//@ cos(complex64): complex64, cos(complex128)
FUSER_DEVICE complex64 cos(complex64 z) { return complex64(cos(complex128(z))); }

//@ tanh(complex128): complex128, tanh(double), cosh(double), tan(double), isinf(double), copysign(double)
FUSER_DEVICE complex128 tanh(complex128 z) {
  const double t = tan(z.im), r = tanh(z.re), c = cosh(z.re), norm = 1 + r * r * t * t;
  if (isinf(c)) return {r, copysign(0.0, t)};
  return {r * (1 + t * t) / norm, t / (c * c) / norm};
}

//@ tanh(complex64): complex64, tanh(complex128)
FUSER_DEVICE complex64 tanh(complex64 z) { return complex64(tanh(complex128(z))); }

//@ tan(complex128): complex128, tanh(complex128)
FUSER_DEVICE complex128 tan(complex128 z) {
  const complex128 turned = tanh(complex128(-z.im, z.re));
  return {turned.im, -turned.re};
}

//@ tan(complex64): complex64, tan(complex128)
FUSER_DEVICE complex64 tan(complex64 z) { return complex64(tan(complex128(z))); }

//@ asin(complex128): complex128, sqrt(complex128), atan2(double), asinh(double), isinf(double), abs(double), copysign(double)
// Kahan, "Branch cuts for complex elementary functions"; at infinity as in C.
FUSER_DEVICE complex128 asin(complex128 z) {
  if (isinf(z.re) || isinf(z.im)) return {atan2(z.re, abs(z.im)), copysign(1.0 / 0.0, z.im)};
  const complex128 low = sqrt(complex128(1 - z.re, -z.im)), high = sqrt(complex128(1 + z.re, z.im));
  return {atan2(z.re, low.re * high.re - low.im * high.im),
          asinh(low.re * high.im - low.im * high.re)};
}

//@ asin(complex64): complex64, asin(complex128)
FUSER_DEVICE complex64 asin(complex64 z) { return complex64(asin(complex128(z))); }

//@ acos(complex128): complex128, sqrt(complex128), atan2(double), asinh(double), isinf(double), abs(double), copysign(double)
// Kahan, "Branch cuts for complex elementary functions"; at infinity as in C.
FUSER_DEVICE complex128 acos(complex128 z) {
  if (isinf(z.re) || isinf(z.im)) return {atan2(abs(z.im), z.re), copysign(1.0 / 0.0, -z.im)};
  const complex128 low = sqrt(complex128(1 - z.re, -z.im)), high = sqrt(complex128(1 + z.re, z.im));
  return {2 * atan2(low.re, high.re), asinh(high.re * low.im - high.im * low.re)};
}

//@ acos(complex64): complex64, acos(complex128)
FUSER_DEVICE complex64 acos(complex64 z) { return complex64(acos(complex128(z))); }

//@ acosh(complex128): complex128, sqrt(complex128), atan2(double), asinh(double), isinf(double)
// Kahan, "Branch cuts for complex elementary functions"; at infinity as in C.
FUSER_DEVICE complex128 acosh(complex128 z) {
  if (isinf(z.re) || isinf(z.im)) return {1.0 / 0.0, atan2(z.im, z.re)};
  const complex128 low = sqrt(complex128(z.re - 1, z.im)), high = sqrt(complex128(z.re + 1, z.im));
  return {asinh(low.re * high.re + low.im * high.im), 2 * atan2(low.im, high.re)};
}

//@ acosh(complex64): complex64, acosh(complex128)
FUSER_DEVICE complex64 acosh(complex64 z) { return complex64(acosh(complex128(z))); }

//@ asinh(complex128): complex128, asin(complex128)
FUSER_DEVICE complex128 asinh(complex128 z) {
  const complex128 turned = asin(complex128(-z.im, z.re));
  return {turned.im, -turned.re};
}

//@ asinh(complex64): complex64, asinh(complex128)
FUSER_DEVICE complex64 asinh(complex64 z) { return complex64(asinh(complex128(z))); }

//@ atanh(complex128): complex128, log1p(double), atan2(double), abs(double), copysign(double)
FUSER_DEVICE complex128 atanh(complex128 z) {
  const double x = z.re, y = z.im, a = abs(x), distance = (1 - a) * (1 - a) + y * y;
  if (a > 1e100 || abs(y) > 1e100) {
    return {copysign(0.0, x), y == y ? copysign(1.5707963267948966, y) : y};
  }
  // Of |x|: below 0, log1p would cancel.
  const double real = a == 0 ? 0 : log1p(4 * a / distance) / 4;
  return {copysign(real, x), atan2(2 * y, (1 - x) * (1 + x) - y * y) / 2};
}

//@ atanh(complex64): complex64, atanh(complex128)
FUSER_DEVICE complex64 atanh(complex64 z) { return complex64(atanh(complex128(z))); }

//@ atan(complex128): complex128, atanh(complex128)
FUSER_DEVICE complex128 atan(complex128 z) {
  const complex128 turned = atanh(complex128(-z.im, z.re));
  return {turned.im, -turned.re};
}

//@ atan(complex64): complex64, atan(complex128)
FUSER_DEVICE complex64 atan(complex64 z) { return complex64(atan(complex128(z))); }

// -- what the target brings -----------------------------------------------------------------------

//@ abs(double)
//@ abs(float)
//@ asinh(double)
//@ atan2(double)
//@ copysign(double)
//@ copysign(float)
//@ cos(double)
//@ cosh(double)
//@ exp(double)
//@ exp(float)
//@ expm1(double)
//@ floor(double)
//@ floor(float)
//@ fmod(double)
//@ fmod(float)
//@ hypot(double)
//@ isfinite(double)
//@ isfinite(float)
//@ isinf(double)
//@ isinf(float)
//@ isnan(double)
//@ isnan(float)
//@ log(double)
//@ log(float)
//@ log1p(double)
//@ sin(double)
//@ sinh(double)
//@ sqrt(double)
//@ sqrt(float)
//@ tan(double)
//@ tanh(double)
