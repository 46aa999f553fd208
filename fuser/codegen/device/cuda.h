// The CUDA device library: what generated kernels call beyond NVRTC's builtins.
//
// NVRTC already overloads exp, erf, rsqrt, lgamma, erfinv, ... for float and double with torch's
// meaning, so those have no section here, or an empty one in place of common.h's. Inline PTX
// stands under `#ifndef FUSER_EMULATOR`, beside a portable twin with the same bits, where PTX says
// what they are: the emulator compiles this text as plain C++.

//@ FUSER_DEVICE
#define FUSER_DEVICE static __device__ __forceinline__

//@ FUSER_MEMBER
#define FUSER_MEMBER __device__ __forceinline__

//@ int64
typedef long long int64;

//@ int32
typedef int int32;

//@ int16
typedef short int16;

//@ int8
typedef signed char int8;

//@ uint64
typedef unsigned long long uint64;

//@ uint8
typedef unsigned char uint8;

//@ pow(float)
//@ pow(double)

//@ power_of_two: FUSER_DEVICE
// 2^x, one instruction. At most 2 ulp, and 2^0 is 1; 0 in place of results below 2^-126.
FUSER_DEVICE float power_of_two(float x) {
#ifndef FUSER_EMULATOR
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return x < -126.0f ? 0.0f : __builtin_exp2f(x);
#endif
}

//@ exp_nonpositive(float): FUSER_DEVICE, power_of_two
// e^x for x <= 0 and NaN; 0 in place of results below 2^-126. At most 2 + 1.23 |x| ulp: the product
// is rounded, and log2(e) is. Such powers are of differences from a row's largest value, and summed
// with e^0; of 1, none is off by more than 2.5 2^-24.
FUSER_DEVICE float exp_nonpositive(float x) { return power_of_two(x * 1.4426950408889634f); }

//@ erf_plus_one(float): FUSER_DEVICE, power_of_two
// 1 + erf(x), without a branch or a choice: what it is short of 0, or of 2, is erfc(|x|), a power of
// two whose exponent is a polynomial, fitted to 1.6e-8 of the power up to 4 and below it from there
// on. Off by 1.2 2^-23 at most, and by another 2^-23 where the power is off by 2 ulp.
FUSER_DEVICE float erf_plus_one(float x) {
  const float size = fabsf(x);
  float ratio = fmaf(size, -4.5358572e-05f, 4.4550744e-04f);
  ratio = fmaf(ratio, size, -1.4894409e-03f);
  ratio = fmaf(ratio, size, -7.7463069e-04f);
  ratio = fmaf(ratio, size, 2.8253682e-02f);
  ratio = fmaf(ratio, size, -1.4848162e-01f);
  ratio = fmaf(ratio, size, -9.1841638e-01f);
  ratio = fmaf(ratio, size, -1.6279086f);
  const float side = copysignf(1.0f, x);
  return fmaf(-side, power_of_two(ratio * size), 1.0f + side);
}

//@ inverse: FUSER_DEVICE
// 1 / x within an ulp, by one instruction; 0 in place of results below 2^-126.
FUSER_DEVICE float inverse(float x) {
#ifndef FUSER_EMULATOR
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  const float result = 1.0f / x;
  return fabsf(result) < 0x1p-126f ? copysignf(0.0f, x) : result;
#endif
}

//@ tanh_plus_one(float): FUSER_DEVICE, power_of_two, inverse
// 1 + tanh(x) = 2 / (1 + e^-2x). Off by 1.6 2^-23 at most, and by another 1.5 2^-23 where the power
// is off by 2 ulp and the quotient by one.
FUSER_DEVICE float tanh_plus_one(float x) {
  return 2.0f * inverse(1.0f + power_of_two(x * -2.8853900817779268f));
}

//@ four_sigmoids: FUSER_DEVICE, inverse
// 4 / (1 + e^-x), without a branch; a fourth of the divisor has an inverse that is a normal number.
FUSER_DEVICE float four_sigmoids(float x) { return inverse(fmaf(exp(-x), 0.25f, 0.25f)); }

//@ sigmoid(float): FUSER_DEVICE, four_sigmoids
// Within 5 ulp, of which 3 are left with an exact power and inverse.
FUSER_DEVICE float sigmoid(float x) { return 0.25f * four_sigmoids(x); }

//@ silu(float): FUSER_DEVICE, four_sigmoids
// As sigmoid.
FUSER_DEVICE float silu(float x) { return 0.25f * x * four_sigmoids(x); }

//@ divisor_scale(float): FUSER_DEVICE
// What a divisor and what it divides are multiplied by, so that its reciprocal is a normal number.
FUSER_DEVICE float divisor_scale(float divisor) {
  const float size = divisor < 0.0f ? -divisor : divisor;
  return size < 0x1p-64f ? 0x1p64f : size > 0x1p64f ? 0x1p-64f : 1.0f;
}

//@ quotient_of_scaled(float): FUSER_DEVICE
// x / divisor, without a branch; `scaled` is the divisor times its scale, `inverse` 1 / scaled.
// Within 0.5000003 ulp: the product is off by 1.5 at most, and corrected by the remainder that it
// leaves, which is exact. Within 2 ulp where the remainder is subnormal, for |x| < 2^-100, and
// where the quotient is. What is infinite, or divided by 0 or infinity, has no remainder, and the
// sign of a zero is that of the product.
FUSER_DEVICE float quotient_of_scaled(float x, float scale, float scaled, float inverse) {
  const float product = x * scale * inverse;
  const float quotient = fmaf(fmaf(-product, scaled, x * scale), inverse, product);
  return fabsf(quotient) > 0.0f ? quotient : product;
}

//@ maximum(float): FUSER_DEVICE
// NaN wins, from either side.
FUSER_DEVICE float maximum(float x, float y) {
#ifndef FUSER_EMULATOR
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
  return result;
#else
  return y > x || y != y ? y : x;
#endif
}

//@ minimum(float): FUSER_DEVICE
// NaN wins, from either side.
FUSER_DEVICE float minimum(float x, float y) {
#ifndef FUSER_EMULATOR
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
  return result;
#else
  return y < x || y != y ? y : x;
#endif
}

//@ copy_bytes: FUSER_DEVICE
// memcpy of a size known at compile time: the optimizer makes register moves of it.
template <int Bytes>
FUSER_DEVICE void copy_bytes(void* to, const void* from) {
#ifndef FUSER_EMULATOR
  memcpy(to, from, Bytes);
#else
  __builtin_memcpy(to, from, Bytes);
#endif
}

//@ float_bits: FUSER_DEVICE, copy_bytes
FUSER_DEVICE unsigned int float_bits(float value) {
  unsigned int bits;
  copy_bytes<4>(&bits, &value);
  return bits;
}

//@ float_of_bits: FUSER_DEVICE, copy_bytes
FUSER_DEVICE float float_of_bits(unsigned int bits) {
  float value;
  copy_bytes<4>(&value, &bits);
  return value;
}

//@ bits_of: FUSER_DEVICE, float_bits, copy_bytes, int32, int64
FUSER_DEVICE int32 bits_of(float value) { return int32(float_bits(value)); }
FUSER_DEVICE int64 bits_of(double value) {
  int64 bits;
  copy_bytes<8>(&bits, &value);
  return bits;
}

//@ float_of: FUSER_DEVICE, float_of_bits, int32
FUSER_DEVICE float float_of(int32 bits) { return float_of_bits((unsigned int)bits); }

//@ double_of: FUSER_DEVICE, copy_bytes, int64
FUSER_DEVICE double double_of(int64 bits) {
  double value;
  copy_bytes<8>(&value, &bits);
  return value;
}

//@ half_bits: FUSER_DEVICE, float_bits, float_of_bits
// Rounds to nearest even; every NaN becomes 0x7fff.
FUSER_DEVICE unsigned short half_bits(float value) {
#ifndef FUSER_EMULATOR
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  unsigned int bits = float_bits(value);
  unsigned int sign = bits >> 16 & 0x8000u;
  unsigned int size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return 0x7fff;           // NaN
  if (size >= 0x47800000u) return sign | 0x7c00u;  // 65536 and above: infinity
  if (size < 0x38800000u) {
    // Below 2^-14 a half counts units of 2^-24; so does the mantissa of a float in [0.5, 1).
    return sign | (float_bits(float_of_bits(size) + 0.5f) - 0x3f000000u);
  }
  // Rebias the exponent, and round the 13 bits that go; a carry may reach infinity.
  return sign | ((size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13);
#endif
}

//@ half_value: FUSER_DEVICE, float_bits, float_of_bits
FUSER_DEVICE float half_value(unsigned short bits) {
#ifndef FUSER_EMULATOR
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  unsigned int sign = (bits & 0x8000u) << 16;
  unsigned int size = (bits & 0x7fffu) << 13;
  if (size >= 0x0f800000u) return float_of_bits(sign | 0x70000000u | size);  // infinity, NaN
  if (size < 0x00800000u) {
    // Subnormal: the bits count units of 2^-24.
    return float_of_bits(sign | float_bits((bits & 0x3ffu) * 0x1p-24f));
  }
  return float_of_bits(sign | (size + 0x38000000u));
#endif
}

//@ bfloat16_bits: FUSER_DEVICE, float_bits
// Rounds to nearest even; every NaN becomes 0x7fff.
FUSER_DEVICE unsigned short bfloat16_bits(float value) {
#ifndef FUSER_EMULATOR
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  unsigned int bits = float_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
#endif
}

//@ half: FUSER_MEMBER, half_bits, half_value
struct half {
  unsigned short bits;
  half() = default;
  FUSER_MEMBER explicit half(float value) : bits(half_bits(value)) {}
  FUSER_MEMBER operator float() const { return half_value(bits); }
};

//@ bfloat16: FUSER_MEMBER, bfloat16_bits, float_of_bits
struct bfloat16 {
  unsigned short bits;
  bfloat16() = default;
  FUSER_MEMBER explicit bfloat16(float value) : bits(bfloat16_bits(value)) {}
  FUSER_MEMBER operator float() const { return float_of_bits((unsigned int)bits << 16); }
};

//@ float8_e4m3fn_bits: FUSER_DEVICE, float_bits, float_of_bits
// Rounds to nearest even; what is beyond 448 becomes 448, and NaN is 0x7f.
FUSER_DEVICE unsigned char float8_e4m3fn_bits(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  unsigned short pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
  return pair;
#else
  unsigned int bits = float_bits(value);
  unsigned int sign = bits >> 24 & 0x80u;
  unsigned int size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return 0x7f;
  if (size >= 0x43e00000u) return sign | 0x7e;
  // Below 2^-6 it counts units of 2^-9; so does the mantissa of a float in [2^14, 2^15).
  if (size < 0x3c800000u) return sign | (float_bits(float_of_bits(size) + 0x1p14f) - 0x46800000u);
  return sign | ((size - 0x3c000000u + 0x7ffffu + (size >> 20 & 1u)) >> 20);
#endif
}

//@ float8_e4m3fn_value: FUSER_DEVICE, float_bits, float_of_bits, half_value
FUSER_DEVICE float float8_e4m3fn_value(unsigned char bits) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  unsigned int pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)bits));
  return half_value(pair & 0xffffu);
#else
  unsigned int sign = (bits & 0x80u) << 24;
  unsigned int size = (bits & 0x7fu) << 20;
  if (size == 0x07f00000u) return float_of_bits(sign | 0x7fc00000u);
  if (size < 0x00800000u) return float_of_bits(sign | float_bits((bits & 7u) * 0x1p-9f));
  return float_of_bits(sign | (size + 0x3c000000u));
#endif
}

//@ float8_e5m2_bits: FUSER_DEVICE, float_bits, float_of_bits
// Rounds to nearest even; infinity from 61440 on, and every NaN becomes 0x7f with its sign.
FUSER_DEVICE unsigned char float8_e5m2_bits(float value) {
  unsigned int bits = float_bits(value);
  unsigned int sign = bits >> 24 & 0x80u;
  unsigned int size = bits & 0x7fffffffu;
  if (size >= 0x47700000u) return sign | (size > 0x7f800000u ? 0x7fu : 0x7cu);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  unsigned short pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
  return pair;
#else
  // Below 2^-14 it counts units of 2^-16; so does the mantissa of a float in [2^7, 2^8).
  if (size < 0x38800000u) return sign | (float_bits(float_of_bits(size) + 0x1p7f) - 0x43000000u);
  return sign | ((size - 0x38000000u + 0xfffffu + (size >> 21 & 1u)) >> 21);
#endif
}

//@ float8_e4m3fn: FUSER_MEMBER, float8_e4m3fn_bits, float8_e4m3fn_value
struct float8_e4m3fn {
  unsigned char bits;
  float8_e4m3fn() = default;
  FUSER_MEMBER explicit float8_e4m3fn(float value) : bits(float8_e4m3fn_bits(value)) {}
  FUSER_MEMBER operator float() const { return float8_e4m3fn_value(bits); }
};

//@ float8_e5m2: FUSER_MEMBER, float8_e5m2_bits, half_value
// The upper half of a half.
struct float8_e5m2 {
  unsigned char bits;
  float8_e5m2() = default;
  FUSER_MEMBER explicit float8_e5m2(float value) : bits(float8_e5m2_bits(value)) {}
  FUSER_MEMBER operator float() const { return half_value((unsigned short)(bits << 8)); }
};

//@ float8_e8m0fnu: FUSER_MEMBER, float_bits, float_of_bits
// Powers of two, 2^-127 to 2^127, and NaN: the exponent of a float32, rounded by its mantissa
// without regard to the sign. Where the mantissa is one half, up; of a subnormal, down.
struct float8_e8m0fnu {
  unsigned char bits;
  float8_e8m0fnu() = default;
  FUSER_MEMBER explicit float8_e8m0fnu(float value) : bits(rounded(float_bits(value))) {}
  FUSER_MEMBER operator float() const {
    return float_of_bits(bits == 0xff ? 0x7fc00000u : bits == 0 ? 0x00400000u : (unsigned)bits << 23);
  }
  static FUSER_MEMBER unsigned char rounded(unsigned int word) {
    const unsigned int size = word & 0x7fffffffu;
    if (size >= 0x7f800000u) return 0xff;
    return (size + (size < 0x00800000u ? 0x3fffffu : 0x400000u)) >> 23;
  }
};

//@ float4_e2m1fn: FUSER_MEMBER, float_bits, float_of_bits
// 0, 0.5, 1, 1.5, 2, 3, 4 or 6, in the byte that it is as float8_e4m3fn: from 1 on, its three bits
// and their sign in another place. What is beyond 6 becomes 6, and so does NaN.
struct float4_e2m1fn {
  unsigned char bits;
  float4_e2m1fn() = default;
  FUSER_MEMBER explicit float4_e2m1fn(float value) : bits(rounded(float_bits(value))) {}
  FUSER_MEMBER operator float() const {
    const unsigned int size = (bits & 0x7fu) << 20;
    return float_of_bits((bits & 0x80u) << 24 | (size == 0 ? 0 : size + 0x3c000000u));
  }
  static FUSER_MEMBER unsigned char rounded(unsigned int word) {
    const unsigned int size = word & 0x7fffffffu;
    if (size > 0x7f800000u) return 0x4c;
    const unsigned int sign = word >> 24 & 0x80u;
    if (size >= 0x40c00000u) return sign | 0x4c;
    // Below 1 it counts halves; so does the mantissa of a float in [2^22, 2^23).
    if (size >= 0x3f800000u) return sign | ((size - 0x3c000000u + 0x1fffffu + (size >> 22 & 1u)) >> 22) << 2;
    const unsigned int halves = float_bits(float_of_bits(size) + 0x1p22f) - 0x4a800000u;
    return sign | (halves == 0 ? 0 : 0x28u + 8 * halves);
  }
};

//@ float4_e2m1fn_x2
// Two in a byte, the first in its lower half.
struct float4_e2m1fn_x2 {
  unsigned char bits;
};

//@ quotient_by_inverse: FUSER_DEVICE
// Of an index that is not negative: the whole product with a factor, shifted. A division takes some
// twenty instructions.
FUSER_DEVICE int quotient_by_inverse(int index, int factor, int shift) {
  return int((unsigned long long)(unsigned int)index * (unsigned int)factor >> shift);
}

//@ rest_by_inverse: FUSER_DEVICE, quotient_by_inverse
// Of an index that is not negative.
FUSER_DEVICE int rest_by_inverse(int index, int divisor, int factor, int shift) {
  return index - quotient_by_inverse(index, factor, shift) * divisor;
}

//@ clamped_to_last: FUSER_DEVICE
// One of 0 to size - 1, in one instruction: the last one for any other, since what is read there is
// not used.
FUSER_DEVICE int clamped_to_last(int index, int size) {
  const unsigned int place = index, last = size - 1;
  return int(place < last ? place : last);
}

//@ packet
// What one memory access moves. `may_alias`: packets overlay arrays of every element type.
template <int Bytes> struct packet;
template <> struct __attribute__((may_alias)) packet<1> { unsigned char x; };
template <> struct __attribute__((may_alias)) packet<2> { unsigned short x; };
template <> struct __attribute__((may_alias)) packet<4> { unsigned int x; };
template <> struct __attribute__((may_alias, aligned(8))) packet<8> { unsigned int x, y; };
template <> struct __attribute__((may_alias, aligned(16))) packet<16> {
  unsigned int x, y, z, w;
};

//@ unpack: FUSER_DEVICE, packet, copy_bytes
// The lanes of a packet. Those of 16 bits are taken from words by shifts, which the compiler sees
// through: a bfloat16 is widened by one instruction, and lanes that are kept stay the words they
// were. Of a copy, it would extract each of them first.
template <int Bytes, typename T>
FUSER_DEVICE void unpack(T* lanes, packet<Bytes> moved) {
  if constexpr (sizeof(T) == 2 && Bytes >= 4) {
    unsigned int words[Bytes / 4];
    copy_bytes<Bytes>(words, &moved);
#pragma unroll
    for (int lane = 0; lane < Bytes / 2; ++lane) {
      const unsigned short bits = (unsigned short)(words[lane / 2] >> lane % 2 * 16);
      copy_bytes<2>(lanes + lane, &bits);
    }
  } else {
    copy_bytes<Bytes>(lanes, &moved);
  }
}

//@ packed: FUSER_DEVICE, packet, copy_bytes
// A packet of lanes; see `unpack`.
template <int Bytes, typename T>
FUSER_DEVICE packet<Bytes> packed(const T* lanes) {
  packet<Bytes> moved;
  if constexpr (sizeof(T) == 2 && Bytes >= 4) {
    unsigned int words[Bytes / 4];
#pragma unroll
    for (int i = 0; i < Bytes / 4; ++i) {
      unsigned short low, high;
      copy_bytes<2>(&low, lanes + 2 * i);
      copy_bytes<2>(&high, lanes + 2 * i + 1);
      words[i] = low | (unsigned int)high << 16;
    }
    copy_bytes<Bytes>(&moved, words);
  } else {
    copy_bytes<Bytes>(&moved, lanes);
  }
  return moved;
}

//@ extreme_pair: FUSER_DEVICE, half, bfloat16
// The larger of the floats in the lower halves of two words, or the smaller, and of those in the
// upper halves; NaN where one is. The last argument is of their type.
#ifndef FUSER_EMULATOR
template <bool largest>
FUSER_DEVICE unsigned int extreme_pair(unsigned int x, unsigned int y, bfloat16) {
  unsigned int pair;
  if constexpr (largest) {
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(pair) : "r"(x), "r"(y));
  } else {
    asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(pair) : "r"(x), "r"(y));
  }
  return pair;
}
template <bool largest>
FUSER_DEVICE unsigned int extreme_pair(unsigned int x, unsigned int y, half) {
  unsigned int pair;
  if constexpr (largest) {
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(pair) : "r"(x), "r"(y));
  } else {
    asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(pair) : "r"(x), "r"(y));
  }
  return pair;
}
#else
template <bool largest, typename T>
FUSER_DEVICE unsigned int extreme_pair(unsigned int x, unsigned int y, T) {
  unsigned int pair = 0;
  for (int shift = 0; shift < 32; shift += 16) {
    T first, second;
    first.bits = x >> shift;
    second.bits = y >> shift;
    const float a = float(first), b = float(second);
    const bool takes_first = a != a || (b == b && (largest ? a > b : a < b));
    pair |= (unsigned int)(takes_first ? first.bits : second.bits) << shift;
  }
  return pair;
}
#endif

//@ extreme_lane: FUSER_DEVICE, extreme_pair
// The largest or the smallest of a vector of floats of 16 bits; NaN if one is. See `unpack`.
template <bool largest, int N, typename T>
FUSER_DEVICE T extreme_lane(const T (&lanes)[N]) {
  static_assert(N > 1 && (N & (N - 1)) == 0, "whole words");
  unsigned int words[N / 2];
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    words[i] = lanes[2 * i].bits | (unsigned int)lanes[2 * i + 1].bits << 16;
  }
#pragma unroll
  for (int count = N / 4; count > 0; count /= 2) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      words[i] = extreme_pair<largest>(words[i], words[i + count], T());
    }
  }
  T found;
  found.bits = (unsigned short)extreme_pair<largest>(words[0], words[0] >> 16, T());
  return found;
}

//@ load_vector: FUSER_DEVICE, unpack
// Reads N elements by accesses of 16 bytes, or by one where they are fewer bytes than that.
// `at` is aligned to the access.
template <int N, typename T>
FUSER_DEVICE void load_vector(T (&lanes)[N], const T* at) {
  constexpr int bytes = N * sizeof(T) < 16 ? N * sizeof(T) : 16;
  static_assert(N * sizeof(T) % bytes == 0, "whole accesses");
#pragma unroll
  for (int i = 0; i < N * (int)sizeof(T) / bytes; ++i) {
    unpack(lanes + i * (bytes / (int)sizeof(T)), reinterpret_cast<const packet<bytes>*>(at)[i]);
  }
}

//@ store_vector: FUSER_DEVICE, packed
// Writes N elements by accesses of 16 bytes, or by one where they are fewer bytes than that.
// `at` is aligned to the access.
template <int N, typename T>
FUSER_DEVICE void store_vector(const T (&lanes)[N], T* at) {
  constexpr int bytes = N * sizeof(T) < 16 ? N * sizeof(T) : 16;
  static_assert(N * sizeof(T) % bytes == 0, "whole accesses");
#pragma unroll
  for (int i = 0; i < N * (int)sizeof(T) / bytes; ++i) {
    reinterpret_cast<packet<bytes>*>(at)[i] = packed<bytes>(lanes + i * (bytes / (int)sizeof(T)));
  }
}

//@ load_part_pieces: FUSER_DEVICE, unpack, packed
// Reads the first `valid` of N elements; all N, `piece` of them at a time, where valid >= N; the
// others are T(). Lanes are unpacked after the branch: inside of it, that would wait for memory
// before the next tensor's loads are on their way.
template <int piece, int N, typename T, typename Index>
FUSER_DEVICE void load_part_pieces(T (&lanes)[N], const T* at, Index valid) {
  constexpr int bytes = piece * sizeof(T) < 16 ? piece * sizeof(T) : 16;
  constexpr int each = bytes / sizeof(T);
  packet<bytes> moved[N / each];
  if (valid >= N) {
#pragma unroll
    for (int i = 0; i < N / each; ++i) moved[i] = reinterpret_cast<const packet<bytes>*>(at)[i];
  } else {
#pragma unroll
    for (int i = 0; i < N / each; ++i) {
      T part[each];
#pragma unroll
      for (int j = 0; j < each; ++j) part[j] = i * each + j < valid ? at[i * each + j] : T();
      moved[i] = packed<bytes>(part);
    }
  }
#pragma unroll
  for (int i = 0; i < N / each; ++i) unpack(lanes + i * each, moved[i]);
}

//@ load_part: FUSER_DEVICE, load_part_pieces
// Reads the first `valid` of N elements, all at once where valid >= N; the others are T().
template <int N, typename T, typename Index>
FUSER_DEVICE void load_part(T (&lanes)[N], const T* at, Index valid) {
  load_part_pieces<N>(lanes, at, valid);
}

//@ load_there: FUSER_DEVICE, unpack
// Reads N elements as `load_vector` does, if they are there; else they are T(). Lanes are unpacked
// after the branch, as in `load_part_pieces`.
template <int N, typename T>
FUSER_DEVICE void load_there(T (&lanes)[N], const T* at, bool there) {
  constexpr int bytes = N * sizeof(T) < 16 ? N * sizeof(T) : 16;
  constexpr int count = N * sizeof(T) / bytes;
  packet<bytes> moved[count] = {};
  if (there) {
#pragma unroll
    for (int i = 0; i < count; ++i) moved[i] = reinterpret_cast<const packet<bytes>*>(at)[i];
  }
#pragma unroll
  for (int i = 0; i < count; ++i) unpack(lanes + i * (N / count), moved[i]);
}

//@ store_part: FUSER_DEVICE, store_vector
// Writes the first `valid` of N elements, all at once where valid >= N.
template <int N, typename T, typename Index>
FUSER_DEVICE void store_part(const T (&lanes)[N], T* at, Index valid) {
  if (valid >= N) {
    store_vector(lanes, at);
    return;
  }
#pragma unroll
  for (int lane = 0; lane < N; ++lane) {
    if (lane < valid) at[lane] = lanes[lane];
  }
}

//@ load_pieces: FUSER_DEVICE, load_vector
// Reads N elements, `piece` of them at a time; `at` is aligned for that.
template <int piece, int N, typename T>
FUSER_DEVICE void load_pieces(T (&lanes)[N], const T* at) {
  if constexpr (piece == N) {
    load_vector(lanes, at);
  } else {
#pragma unroll
    for (int i = 0; i < N; i += piece) {
      T part[piece];
      load_vector(part, at + i);
#pragma unroll
      for (int j = 0; j < piece; ++j) lanes[i + j] = part[j];
    }
  }
}

//@ store_pieces: FUSER_DEVICE, store_vector
// Writes N elements, `piece` of them at a time; `at` is aligned for that.
template <int piece, int N, typename T>
FUSER_DEVICE void store_pieces(const T (&lanes)[N], T* at) {
  if constexpr (piece == N) {
    store_vector(lanes, at);
  } else {
#pragma unroll
    for (int i = 0; i < N; i += piece) {
      T part[piece];
#pragma unroll
      for (int j = 0; j < piece; ++j) part[j] = lanes[i + j];
      store_vector(part, at + i);
    }
  }
}

//@ load_run: FUSER_DEVICE, load_pieces
template <int Each, int N, typename T>
FUSER_DEVICE void take_turns(T (&lanes)[N], const T* run) {
#pragma unroll
  for (int lane = 0; lane < N; ++lane) lanes[lane] = run[lane * Each];
}

// Reads N elements of each array, in turn: the first of each, then the second of each; `piece` of
// all of them at a time, for which `at` is aligned.
template <int piece, int N, typename T, typename... Arrays>
FUSER_DEVICE void load_run(const T* at, T (&first)[N], Arrays&... others) {
  constexpr int each = 1 + sizeof...(others);
  T run[N * each];
  load_pieces<piece>(run, at);
  take_turns<each>(first, run);
  int place = 0;
  (take_turns<each>(others, run + ++place), ...);
}

//@ store_run: FUSER_DEVICE, store_pieces
template <int Each, int N, typename T>
FUSER_DEVICE void give_turns(const T (&lanes)[N], T* run) {
#pragma unroll
  for (int lane = 0; lane < N; ++lane) run[lane * Each] = lanes[lane];
}

// Writes N elements of each array, in turn, as `load_run` reads them.
template <int piece, int N, typename T, typename... Arrays>
FUSER_DEVICE void store_run(T* at, const T (&first)[N], const Arrays&... others) {
  constexpr int each = 1 + sizeof...(others);
  T run[N * each];
  give_turns<each>(first, run);
  int place = 0;
  (give_turns<each>(others, run + ++place), ...);
  store_pieces<piece>(run, at);
}

//@ shared_address: FUSER_DEVICE
// Where something is in this block's shared memory.
#ifndef FUSER_EMULATOR
FUSER_DEVICE unsigned int shared_address(const void* at) {
  return (unsigned int)__cvta_generic_to_shared(at);
}
#endif

//@ copy_ahead: FUSER_DEVICE, shared_address, load_pieces, store_pieces
// Begins to copy N elements to shared memory, `piece` of them at a time; both are aligned for that.
// This thread may read them after `wait_for_copies`.
template <int piece, int N, typename T>
FUSER_DEVICE void copy_ahead(T* to, const T* at) {
  constexpr int bytes = piece * sizeof(T) < 16 ? piece * sizeof(T) : 16;
  if constexpr (bytes >= 4) {
    const char* from = reinterpret_cast<const char*>(at);
#pragma unroll
    for (int i = 0; i < N * (int)sizeof(T); i += bytes) {
#ifdef FUSER_EMULATOR
      FUSER_COPY_LATER(reinterpret_cast<char*>(to) + i, from + i, bytes);
#else
      const unsigned int place = shared_address(to) + i;
      if constexpr (bytes == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from + i)
                     : "memory");
      } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(from + i),
                     "n"(bytes)
                     : "memory");
      }
#endif
    }
  } else {
    T lanes[N];
    load_pieces<piece>(lanes, at);
    store_pieces<piece>(lanes, to);
  }
}

//@ wait_for_copies: FUSER_DEVICE
FUSER_DEVICE void wait_for_copies() {
#ifdef FUSER_EMULATOR
  FUSER_WAIT_FOR_COPIES();
#else
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

//@ before_aligned: FUSER_DEVICE
// How many elements from `at` come before a place where N of them are aligned; at most `count`.
template <int N, typename T, typename Index>
FUSER_DEVICE Index before_aligned(const T* at, Index count) {
  const int above = (int)(reinterpret_cast<unsigned long long>(at) / sizeof(T) % N);
  const int before = above == 0 ? 0 : N - above;
  return before < count ? before : count;
}

// -- rows --------------------------------------------------------------------------------------

//@ fill_tile: FUSER_DEVICE, load_part
// Reads a tile of which memory holds columns: `column` gives the address of each, from `first` on.
// `lines` and `columns` are how many there are, if fewer than the tile has; the rest is T().
// All loads come before the first element is written.
template <int Threads, int Lanes, int Lines, int Columns, int Pitch, typename T, typename Index,
          typename Column>
FUSER_DEVICE void fill_tile(T (&tile)[Columns][Pitch], Index first, Index lines, Index columns,
                            Column column) {
  constexpr int packs = Lines / Lanes;
  constexpr int rounds = (Columns * packs + Threads - 1) / Threads;
  T held[rounds][Lanes];
#pragma unroll
  for (int round = 0; round < rounds; ++round) {
    const int place = round * Threads + threadIdx.x;
    const int i = place / packs, line = place % packs * Lanes;
    load_part(held[round], column(first + i) + line, i < columns ? lines - line : Index(0));
  }
#pragma unroll
  for (int round = 0; round < rounds; ++round) {
    const int place = round * Threads + threadIdx.x;
    if (place >= Columns * packs) break;
#pragma unroll
    for (int lane = 0; lane < Lanes; ++lane) {
      tile[place / packs][place % packs * Lanes + lane] = held[round][lane];
    }
  }
}

//@ drain_tile: FUSER_DEVICE, store_part
// Writes a tile as `fill_tile` reads it.
template <int Threads, int Lanes, int Lines, int Columns, int Pitch, typename T, typename Index,
          typename Column>
FUSER_DEVICE void drain_tile(const T (&tile)[Columns][Pitch], Index first, Index lines,
                             Index columns, Column column) {
  constexpr int packs = Lines / Lanes;
  constexpr int rounds = (Columns * packs + Threads - 1) / Threads;
#pragma unroll
  for (int round = 0; round < rounds; ++round) {
    const int place = round * Threads + threadIdx.x;
    const int i = place / packs, line = place % packs * Lanes;
    if (i >= Columns || i >= columns || line >= lines) continue;
    T held[Lanes];
#pragma unroll
    for (int lane = 0; lane < Lanes; ++lane) {
      held[lane] = line + lane < lines ? tile[i][line + lane] : T();
    }
    store_part(held, column(first + i) + line, lines - line);
  }
}

//@ take_line: FUSER_DEVICE
// Takes neighbouring columns of a line of a tile.
template <int Lanes, int Columns, int Pitch, typename T>
FUSER_DEVICE void take_line(T (&lanes)[Lanes], const T (&tile)[Columns][Pitch], int line,
                            int column) {
#pragma unroll
  for (int lane = 0; lane < Lanes; ++lane) lanes[lane] = tile[column + lane][line];
}

//@ keep_line: FUSER_DEVICE
// Leaves the first `valid` lanes as neighbouring columns of a line of a tile.
template <int Lanes, int Columns, int Pitch, typename T, typename Index>
FUSER_DEVICE void keep_line(const T (&lanes)[Lanes], T (&tile)[Columns][Pitch], int line,
                            int column, Index valid) {
#pragma unroll
  for (int lane = 0; lane < Lanes; ++lane) {
    if (lane < valid) tile[column + lane][line] = lanes[lane];
  }
}

//@ unknown_zero: FUSER_DEVICE
// 0, of which the compiler knows neither that nor whether it is the same each time: what is read at
// a place that it is added to is read there and then.
FUSER_DEVICE int unknown_zero() {
  int zero = 0;
#ifndef FUSER_EMULATOR
  asm volatile("" : "+r"(zero));
#endif
  return zero;
}

//@ index_in_range: FUSER_DEVICE
// An index in range; `outside` in place of one that is not.
FUSER_DEVICE long long index_in_range(long long index, long long size, bool wraps,
                                      long long outside) {
  const long long at = wraps && index < 0 ? index + size : index;
  return at >= 0 && at < size ? at : outside;
}

//@ checked_index: FUSER_DEVICE
// An index in range; one that is not is reported, and `outside` taken instead. The first thread
// reports.
FUSER_DEVICE long long checked_index(long long index, long long size, bool wraps,
                                     long long outside, long long check, long long* errors) {
  const long long at = wraps && index < 0 ? index + size : index;
  if (at >= 0 && at < size) return at;
  unsigned long long* const claim = reinterpret_cast<unsigned long long*>(errors);
  if (atomicCAS(claim, 0ull, static_cast<unsigned long long>(check)) == 0ull) errors[1] = index;
  return outside;
}

//@ lane_across: FUSER_DEVICE
// The value of the lane whose number differs in `bits`; all lanes of the warp ask.
template <typename T>
FUSER_DEVICE T lane_across(T value, int bits) {
  if constexpr (sizeof(T) < 4) {
    return T(__shfl_xor_sync(0xffffffffu, int(value), bits));
  } else {
    return __shfl_xor_sync(0xffffffffu, value, bits);
  }
}

//@ join_warp: FUSER_DEVICE, lane_across
// The values of a warp's threads as one, in all of them.
template <typename T, typename Join>
FUSER_DEVICE T join_warp(T value, Join join) {
#pragma unroll
  for (int bits = 16; bits > 0; bits /= 2) value = join(value, lane_across(value, bits));
  return value;
}

//@ join_lanes: FUSER_DEVICE, lane_across
// The values of `count` neighbouring lanes of a warp as one, in all of them; `count` is a power of
// two, and all lanes of the warp ask.
template <int count, typename T, typename Join>
FUSER_DEVICE T join_lanes(T value, Join join) {
#pragma unroll
  for (int bits = count / 2; bits > 0; bits /= 2) value = join(value, lane_across(value, bits));
  return value;
}

//@ join_block: FUSER_DEVICE, join_warp, lane_across
// The values of a block's threads as one, in all of them. `warps` is a power of two; `shared` has
// room for one value of each. Threads leave together, so it may be used again at once.
template <int warps, typename T, typename Join>
FUSER_DEVICE T join_block(T value, Join join, void* shared) {
  value = join_warp(value, join);
  if constexpr (warps > 1) {
    T* of_warp = static_cast<T*>(shared);
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    if (thread % 32 == 0) of_warp[thread / 32] = value;
    __syncthreads();
    value = of_warp[thread % warps];
#pragma unroll
    for (int bits = warps / 2; bits > 0; bits /= 2) value = join(value, lane_across(value, bits));
    __syncthreads();
  }
  return value;
}

//@ meet_team: FUSER_DEVICE
// Waits for the threads of the block that have this threadIdx.y, so many `warps`.
template <int warps>
FUSER_DEVICE void meet_team() {
#ifndef FUSER_EMULATOR
  asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.y + 1), "n"(32 * warps) : "memory");
#else
  FUSER_MEET_TEAM(32 * warps);
#endif
}

//@ join_team: FUSER_DEVICE, join_warp, lane_across, meet_team
// The values of the threads of a block that have one threadIdx.y as one, in all of them; of the
// others, none waits for these. `warps`, of each, is a power of two; `shared` has 8 bytes for each
// warp of the block. Threads leave together if it is used again before they meet elsewhere.
template <int warps, bool again, typename T, typename Join>
FUSER_DEVICE T join_team(T value, Join join, unsigned char* shared) {
  value = join_warp(value, join);
  if constexpr (warps > 1) {
    T* of_warp = reinterpret_cast<T*>(shared + 8 * warps * threadIdx.y);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    meet_team<warps>();
    value = of_warp[threadIdx.x % warps];
#pragma unroll
    for (int bits = warps / 2; bits > 0; bits /= 2) value = join(value, lane_across(value, bits));
    if constexpr (again) meet_team<warps>();
  }
  return value;
}

//@ open_barriers: FUSER_DEVICE, shared_address
// Makes barriers of words in shared memory. A phase of each ends with one arrival, and all of the
// bytes that this expects. They are there, in all blocks of the cluster, after
// `meet_cluster`, where this thread arrives.
template <int count>
FUSER_DEVICE void open_barriers(unsigned long long (&barriers)[count]) {
#ifndef FUSER_EMULATOR
  if (threadIdx.x == 0) {
    for (int i = 0; i < count; ++i) {
      const unsigned int at = shared_address(barriers + i);
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#else
  for (int i = 0; threadIdx.x == 0 && i < count; ++i) FUSER_OPEN_BARRIER(barriers + i);
#endif
}

//@ meet_cluster: FUSER_DEVICE
// Waits until all threads of the cluster have arrived, once.
FUSER_DEVICE void meet_cluster() {
#ifndef FUSER_EMULATOR
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#else
  FUSER_MEET_CLUSTER();
#endif
}

//@ expect_bytes: FUSER_DEVICE, shared_address
// Arrives at a barrier of this block, whose phase ends when so many bytes have come.
FUSER_DEVICE void expect_bytes(unsigned long long* barrier, int bytes) {
#ifndef FUSER_EMULATOR
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   shared_address(barrier)),
               "r"(bytes)
               : "memory");
#else
  FUSER_EXPECT_BYTES(barrier, bytes);
#endif
}

//@ await_bytes: FUSER_DEVICE, shared_address
// Waits for the end of a barrier's phase, of this parity, and sees the words that came in it.
// They are in this block's own shared memory: to acquire more than a block needs would empty L1.
FUSER_DEVICE void await_bytes(unsigned long long* barrier, int parity) {
#ifndef FUSER_EMULATOR
  const unsigned int at = shared_address(barrier);
  int ended;
  do {
    asm volatile(
        "{\n\t"
        ".reg .pred ended;\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n\t"
        "selp.b32 %0, 1, 0, ended;\n\t"
        "}"
        : "=r"(ended)
        : "r"(at), "r"(parity)
        : "memory");
  } while (!ended);
#else
  FUSER_AWAIT_BYTES(barrier, parity);
#endif
}

//@ send_across: FUSER_DEVICE, shared_address
// Writes to where `to`, in the shared memory of this block, is in the block `rank` of the cluster,
// and tells its `barrier`. It orders nothing else, so that nobody waits for what goes to memory.
FUSER_DEVICE void send_across(
    unsigned long long* to, unsigned long long word, unsigned long long* barrier, int rank) {
#ifndef FUSER_EMULATOR
  unsigned int there, told;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(to)), "r"(rank));
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(told)
      : "r"(shared_address(barrier)), "r"(rank));
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(there),
      "l"(word), "r"(told)
      : "memory");
#else
  FUSER_SEND_ACROSS(to, word, barrier, rank);
#endif
}

//@ cluster_mail
// What the warps of a cluster send each of its blocks: by turns, since what has come in one may
// still be read when the next comes.
template <int count>
struct cluster_mail {
  unsigned long long barriers[2], words[2][count];
};

//@ tell_cluster: FUSER_DEVICE, cluster_mail, meet_cluster, expect_bytes, send_across, await_bytes
// Sends a word of each warp to all blocks of the cluster, which lie along y and have so many
// `warps`, and waits for those of the others: all of them, in the order of the warps, the same in
// every block. All threads of a warp have its word; `told` counts how often this block did so:
// what it does before the first time does not wait for others to begin.
template <int blocks, int warps>
FUSER_DEVICE const unsigned long long* tell_cluster(
    unsigned long long word, cluster_mail<blocks * warps>& mail, unsigned int& told) {
  if (told == 0) meet_cluster();
  const int turn = told % 2, parity = told / 2 % 2, lane = threadIdx.x % 32;
  ++told;
  unsigned long long *words = mail.words[turn], *barrier = mail.barriers + turn;
  unsigned long long* own = words + blockIdx.y * warps + threadIdx.x / 32;
  if (threadIdx.x == 0) expect_bytes(barrier, 8 * blocks * warps);
  if (lane < blocks) send_across(own, word, barrier, lane);
  await_bytes(barrier, parity);
  return words;
}

//@ join_cluster: FUSER_DEVICE, join_warp, lane_across, copy_bytes, tell_cluster
// The values of a cluster's threads as one, in all of them. Its blocks lie along y, each with a
// power of two of `warps`; `joined` counts how often this block has done so.
template <int blocks, int warps, typename T, typename Join>
FUSER_DEVICE T join_cluster(
    T value, Join join, cluster_mail<blocks * warps>& mail, unsigned int& joined) {
  constexpr int count = blocks * warps;
  const int lane = threadIdx.x % 32;
  value = join_warp(value, join);
  unsigned long long word = 0;
  copy_bytes<sizeof(T)>(&word, &value);
  const unsigned long long* of_warp = tell_cluster<blocks, warps>(word, mail, joined);
  copy_bytes<sizeof(T)>(&value, &of_warp[lane % count]);
#pragma unroll
  for (int i = 32; i < count; i += 32) {
    T other;
    copy_bytes<sizeof(T)>(&other, &of_warp[i + lane]);
    value = join(value, other);
  }
#pragma unroll
  for (int bits = (count < 32 ? count : 32) / 2; bits > 0; bits /= 2) {
    value = join(value, lane_across(value, bits));
  }
  return value;
}

//@ powers
// A sum of e to differences from the largest of some numbers, or from the lowest finite one if that
// is -inf.
struct powers {
  float largest, sum;
};

//@ power_sum_at: FUSER_DEVICE, powers, exp_nonpositive(float)
// The sum, less what is no smaller than the largest.
FUSER_DEVICE float power_sum_at(powers own, float largest) {
  return own.sum * exp_nonpositive(own.largest - largest);
}

//@ join_lane_powers: FUSER_DEVICE, power_sum_at, join_lanes, maximum(float)
// Those of `count` neighbouring lanes of a warp as one, in all of them.
template <int count>
FUSER_DEVICE powers join_lane_powers(powers own) {
  const float largest =
      join_lanes<count>(own.largest, [](float x, float y) { return maximum(x, y); });
  const float sum = power_sum_at(own, largest);
  return {largest, join_lanes<count>(sum, [](float x, float y) { return x + y; })};
}

//@ powers_of_row: FUSER_DEVICE, powers
// Those of a whole row, whose largest number has a power of 1: without one, all of it is -inf.
FUSER_DEVICE powers powers_of_row(powers own) {
  if (own.sum == 0.0f) return {-__int_as_float(0x7f800000), __int_as_float(0x7fc00000)};
  return own;
}

//@ join_block_powers: FUSER_DEVICE, join_lane_powers, powers_of_row
// Those of a block's threads, in all of them; see `join_block`.
template <int warps>
FUSER_DEVICE powers join_block_powers(powers own, void* shared) {
  own = join_lane_powers<32>(own);
  if constexpr (warps > 1) {
    powers* of_warp = static_cast<powers*>(shared);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = own;
    __syncthreads();
    own = join_lane_powers<warps>(of_warp[threadIdx.x % warps]);
    __syncthreads();
  }
  return powers_of_row(own);
}

//@ join_cluster_powers: FUSER_DEVICE, join_lane_powers, powers_of_row, copy_bytes, tell_cluster
// Those of a cluster's threads, in all of them; see `join_cluster`.
template <int blocks, int warps>
FUSER_DEVICE powers join_cluster_powers(
    powers own, cluster_mail<blocks * warps>& mail, unsigned int& joined) {
  constexpr int count = blocks * warps, lanes = count < 32 ? count : 32;
  own = join_lane_powers<32>(own);
  unsigned long long word;
  copy_bytes<8>(&word, &own);
  const unsigned long long* of_warp = tell_cluster<blocks, warps>(word, mail, joined);
  powers given[count / lanes];
#pragma unroll
  for (int i = 0; i < count / lanes; ++i) {
    copy_bytes<8>(given + i, of_warp + i * lanes + threadIdx.x % lanes);
  }
  own = {given[0].largest, 0.0f};
#pragma unroll
  for (int i = 1; i < count / lanes; ++i) own.largest = maximum(own.largest, given[i].largest);
#pragma unroll
  for (int i = 0; i < count / lanes; ++i) own.sum += power_sum_at(given[i], own.largest);
  return powers_of_row(join_lane_powers<lanes>(own));
}

//@ join_column: FUSER_DEVICE
// The values of the threads of a block that have one threadIdx.x as one, in all of them. blockDim.x
// is `width`, blockDim.y is `height`; `shared` has room for one value of each thread.
template <int height, int width = 32, typename T, typename Join>
FUSER_DEVICE T join_column(T value, Join join, void* shared) {
  T* of_thread = static_cast<T*>(shared);
  of_thread[threadIdx.y * width + threadIdx.x] = value;
  __syncthreads();
  value = of_thread[threadIdx.x];
#pragma unroll
  for (int y = 1; y < height; ++y) value = join(value, of_thread[y * width + threadIdx.x]);
  __syncthreads();
  return value;
}

//@ last_to_finish: FUSER_DEVICE
// Whether this block is the last of `blocks` to come here; it sees what the others have written.
// `finished` counts them from 0, which it is again then, for the next launch.
FUSER_DEVICE bool last_to_finish(int* finished, int blocks, bool* is_last) {
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    __threadfence();  // for all: what a barrier has ordered before a fence, the fence orders, too
    *is_last = atomicAdd(finished, 1) == blocks - 1;
    if (*is_last) {
      *finished = 0;
      __threadfence();  // what it reads now is not what was there before
    }
  }
  __syncthreads();
  return *is_last;
}

//@ pause_polling: FUSER_DEVICE
// A moment in which others have the memory that a thread polls.
FUSER_DEVICE void pause_polling() {
#ifndef FUSER_EMULATOR
  __nanosleep(32);
#endif
}

//@ number_now: FUSER_DEVICE
// What a number is to which other blocks add at any time. It only reads: threads that wait for it
// are not in the way of those that add, and the lanes of a warp read neighbours at once.
FUSER_DEVICE int number_now(int* at) {
#ifndef FUSER_EMULATOR
  int number;
  asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(number) : "l"(at) : "memory");
  return number;
#else
  return atomicAdd(at, 0);
#endif
}

//@ part_at: FUSER_DEVICE
// What another block has written; no cache of this multiprocessor answers.
template <typename T>
FUSER_DEVICE T part_at(const T* at) {
  if constexpr (sizeof(T) >= 4) {
    return __ldcg(at);
  } else {
    return *static_cast<const volatile T*>(at);
  }
}

//@ parts_at: FUSER_DEVICE, copy_bytes, part_at
// N neighbours that another block has written, by one access where they are 8 or 16 bytes, to which
// `at` is aligned then.
template <int N, typename T>
FUSER_DEVICE void parts_at(T (&lanes)[N], const T* at) {
#ifndef FUSER_EMULATOR
  if constexpr (N * sizeof(T) == 16) {
    const uint4 moved = __ldcg(reinterpret_cast<const uint4*>(at));
    copy_bytes<16>(lanes, &moved);
    return;
  }
  if constexpr (N * sizeof(T) == 8) {
    const uint2 moved = __ldcg(reinterpret_cast<const uint2*>(at));
    copy_bytes<8>(lanes, &moved);
    return;
  }
#endif
#pragma unroll
  for (int lane = 0; lane < N; ++lane) lanes[lane] = part_at(at + lane);
}

// -- scatters ----------------------------------------------------------------------------------

//@ adding: FUSER_MEMBER
// How a sum joins two numbers, which memory does by itself.
struct adding {
  template <typename T>
  FUSER_MEMBER T operator()(T x, T y) const { return x + y; }
};

//@ join_to: FUSER_DEVICE, adding, copy_bytes
// Joins a number to an element to which other threads may join theirs, at any time.
FUSER_DEVICE void join_to(float* at, float value, adding) { atomicAdd(at, value); }
FUSER_DEVICE void join_to(double* at, double value, adding) { atomicAdd(at, value); }
FUSER_DEVICE void join_to(int* at, int value, adding) { atomicAdd(at, value); }
FUSER_DEVICE void join_to(long long* at, long long value, adding) {
  atomicAdd(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(value));
}

template <typename Word, typename T, typename Join>
FUSER_DEVICE void join_word(T* at, T value, Join join) {
  Word* const place = reinterpret_cast<Word*>(at);
#ifndef FUSER_EMULATOR
  Word found = *static_cast<volatile Word*>(place), held;
#else
  Word found = atomicCAS(place, Word(0), Word(0)), held;
#endif
  do {
    held = found;
    T there;
    copy_bytes<sizeof(T)>(&there, &held);
    const T joined = join(there, value);
    Word wanted;
    copy_bytes<sizeof(T)>(&wanted, &joined);
    if (wanted == held) return;  // most of what is joined to an extreme changes nothing
    found = atomicCAS(place, held, wanted);
  } while (found != held);
}

template <typename T, typename Join>
FUSER_DEVICE void join_to(T* at, T value, Join join) {
  if constexpr (sizeof(T) == 4) {
    join_word<unsigned int>(at, value, join);
  } else {
    join_word<unsigned long long>(at, value, join);
  }
}

//@ lanes_alike: FUSER_DEVICE
// Which of the lanes in `mask` have the same number as this one.
FUSER_DEVICE unsigned int lanes_alike(unsigned int mask, unsigned long long number) {
#ifndef FUSER_EMULATOR
  return __match_any_sync(mask, number);
#else
  unsigned int alike = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1u)) continue;
    if (__shfl_sync(mask, number, lane) == number) alike |= 1u << lane;
  }
  return alike;
#endif
}

//@ turn_of_lane: FUSER_DEVICE, lanes_alike
// When the lanes of a warp take turns, those of one place one after the other, and those of -1 at
// the end: the turn of this one, and whether it is the last of its place. -1 comes in the last
// lanes only.
FUSER_DEVICE int turn_of_lane(long long place, bool& is_last) {
  const unsigned int all = 0xffffffffu;
  const int lane = threadIdx.x;
  const unsigned int alike = lanes_alike(all, static_cast<unsigned long long>(place));
  const int first = __ffs(alike) - 1, before = __popc(alike & ((1u << lane) - 1u));
  const int own = first == lane ? __popc(alike) : 0;
  int until = own;  // lanes of the places that come up to here
#pragma unroll
  for (int by = 1; by < 32; by *= 2) {
    const int below = __shfl_up_sync(all, until, by);
    if (lane >= by) until += below;
  }
  is_last = before == __popc(alike) - 1;
  return __shfl_sync(all, until - own, first) + before;
}

//@ join_of_warp: FUSER_DEVICE, join_to, lanes_alike
// Each thread of a warp joins a number to an element, if `at` is not null; of those that join to
// one element, one does for all.
template <typename T, typename Join>
FUSER_DEVICE void join_of_warp(T* at, T value, Join join) {
  const unsigned int all = 0xffffffffu;
  const int lane = threadIdx.x;
  const unsigned int alike = lanes_alike(all, reinterpret_cast<unsigned long long>(at));
  const bool is_first = (alike & ((1u << lane) - 1u)) == 0;
  T all_joined = value;
  unsigned int others = at == nullptr || !is_first ? 0u : alike & (alike - 1u);
  while (__any_sync(all, others != 0)) {
    const T other = __shfl_sync(all, value, others ? __ffs(others) - 1 : lane);
    if (others) all_joined = join(all_joined, other);
    others &= others - 1u;
  }
  if (at != nullptr && is_first) join_to(at, all_joined, join);
}

//@ join_vector: FUSER_DEVICE, join_to
// Joins N elements to those at `at`; adds four float32 at a time where the memory takes them so, to
// which `at` is aligned then.
template <int N, typename T, typename Join>
FUSER_DEVICE void join_vector(const T (&lanes)[N], T* at, Join join) {
#pragma unroll
  for (int lane = 0; lane < N; ++lane) join_to(at + lane, lanes[lane], join);
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
// Nobody reads what is added to before the kernel ends: loads may move over these.
template <int N>
FUSER_DEVICE void join_vector(const float (&lanes)[N], float* at, adding join) {
  if constexpr (N == 1) {
    join_to(at, lanes[0], join);
  } else if constexpr (N == 2) {
    asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};" ::"l"(at), "f"(lanes[0]),
                 "f"(lanes[1]));
  } else {
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at + i),
                   "f"(lanes[i]), "f"(lanes[i + 1]), "f"(lanes[i + 2]), "f"(lanes[i + 3]));
    }
  }
}
#endif
