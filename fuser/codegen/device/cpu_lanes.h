// Functions of all lanes of a chunk at once, for what a compiler makes no vector code of: tables of
// sixteen numbers in a register, and scaling by powers of 2 that subnormal results survive. On
// processors without 512-bit vectors, they are loops over the functions of one number.
//
// Coefficients are fitted as those of cpu.h, and bounds were measured like those there.

//@ lane_vectors: FUSER_DEVICE
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

//@ odd_by_table: lane_vectors
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

//@ erf_lanes: erf(float), odd_by_table
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

//@ tanh_lanes: tanh(float), odd_by_table
// At most 1.3 ulp.
#if defined(FUSER_LANE_VECTORS)
alignas(64) constexpr float tanh_table[8][16] = {
    {0.0f, 0.543686986f, 0.839285076f, 0.949642301f, 0.984845519f, 0.995496333f, 0.998666584f,
     0.999605656f, 0.999883413f, 0.999965549f, 0.999989808f, 0.99999696f, 0.999999106f,
     0.999999762f, 0.99999994f, 1.0f},
    {1.0f, 0.704404414f, 0.295600593f, 0.098179467f, 0.030079307f, 0.00898710638f, 0.00266503124f,
     0.000788522186f, 0.00023315147f, 6.89251028e-05f, 2.03747168e-05f, 6.02279761e-06f,
     1.7803394e-06f, 5.26267627e-07f, 1.5556445e-07f, 4.59847662e-08f},
    {0.0f, -0.382974207f, -0.248095885f, -0.0932329819f, -0.0296237618f, -0.00894893054f,
     -0.00266055902f, -0.000787748198f, -0.000232773498f, -6.990783e-05f, -2.03745221e-05f,
     -6.02278396e-06f, -1.78033906e-06f, -5.26267854e-07f, -1.55564564e-07f, -4.59847911e-08f},
    {-0.333330184f, -0.0265805274f, 0.109686442f, 0.0558142103f, 0.0191480741f, 0.00591059122f,
     0.00176958879f, 0.000525059935f, 0.000155380127f, 4.59453222e-05f, 1.35827377e-05f,
     4.0151649e-06f, 1.18689036e-06f, 3.50844971e-07f, 1.03709567e-07f, 3.06565866e-08f},
    {0.0f, 0.142090648f, -0.0092756981f, -0.02198858f, -0.00897567533f, -0.00285315234f,
     -0.000899419247f, -0.000271878438f, -8.5057276e-05f, -2.16345597e-06f, -6.79035793e-06f,
     -2.00734098e-06f, -5.93379013e-07f, -1.75403329e-07f, -5.18486409e-08f, -1.53267958e-08f},
    {0.133129582f, -0.0527371056f, -0.0221262053f, 0.00438826345f, 0.00313399034f, 0.00111918256f,
     0.000348162052f, 0.000104504157f, 3.10275718e-05f, 9.18525075e-06f, 2.71593854e-06f,
     8.02922386e-07f, 2.37355238e-07f, 7.01630256e-08f, 2.0742263e-08f, 6.12918694e-09f},
    {0.0f, -0.0273923613f, 0.0154184261f, 0.00156205508f, -0.000796759094f, -0.00063987996f,
     2.33392871e-06f, 2.40009686e-05f, 3.42594176e-05f, -0.000128631553f, -9.17564591e-07f,
     -2.71296244e-07f, -8.0199797e-08f, -2.37079227e-08f, -7.01282987e-09f, -2.0700226e-09f},
    {-0.0501904003f, 0.0291179419f, -0.00423595821f, -0.00140217075f, 4.46802478e-05f,
     7.70294064e-05f, 3.1753887e-05f, 9.89920409e-06f, 2.98901728e-06f, 8.77973321e-07f,
     2.61973383e-07f, 7.7473949e-08f, 2.28823982e-08f, 6.76253276e-09f, 1.98583727e-09f,
     6.0195271e-10f}};
FUSER_DEVICE float_lanes tanh(float_lanes x) { return odd_by_table(x, 0.609375f, tanh_table); }
#endif

//@ exp_lanes: exp(float), lane_vectors
// At most 1.0 ulp.
// 2^n 2^(k/16) 2^r with |r| <= 1/32, where (2^r - 1) / r is a polynomial; error of the fit 1.6e-9.
#if defined(FUSER_LANE_VECTORS)
alignas(64) constexpr float powers_of_2[16] = {
    1.0f, 1.04427373f, 1.09050775f, 1.13878858f, 1.18920708f, 1.24185777f, 1.29683959f,
    1.35425556f, 1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f, 1.68179286f, 1.75625217f,
    1.8340081f, 1.91520655f};
FUSER_DEVICE float_lanes exp(float_lanes x) {
  x = at_most(90.0f, at_least(-160.0f, x));
  const float_lanes shifter = all_lanes(786432.0f);  // 1.5 2^19: the sum counts sixteenths
  const float_lanes to_powers = all_lanes(1.44269502f), rest = all_lanes(1.92596299e-8f);
  const float_lanes shifted = fused(x, to_powers, shifter);
  const float_lanes n = shifted - shifter;
  const float_lanes r = fused(x, rest, fused(x, to_powers, -n));
  const float_lanes curve = fused(all_lanes(0.0555023514f), r, all_lanes(0.240234286f));
  const float_lanes slope = fused(curve, r, all_lanes(0.693147182f));
  const float_lanes power = looked_up(shifted, powers_of_2);
  const float_lanes value = fused(power * r, slope, power);
  return __builtin_ia32_scalefps512_mask(value, n, value, 0xffff, 4);
}
#endif

//@ exp_nonpositive_lanes: exp_nonpositive(float), exp_lanes
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes exp_nonpositive(float_lanes x) { return exp(x); }
#endif

//@ sigmoid_lanes: sigmoid(float), exp_lanes
// At most 3.1 ulp.
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes sigmoid(float_lanes x) {
  const float_lanes small = exp(float_lanes(int_lanes(x) | int_lanes(all_lanes(-0.0f))));
  return (x < 0 ? small : all_lanes(1)) / (1 + small);
}
#endif

//@ silu_lanes: silu(float), exp_lanes
// At most 3.7 ulp. Below 2^-126 the error is 2^-143.
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes silu(float_lanes x) {
  const float_lanes small = exp(float_lanes(int_lanes(x) | int_lanes(all_lanes(-0.0f))));
  return (x < 0 ? x * small : x) / (1 + small);
}
#endif

//@ turned_lanes: lane_vectors
// sin(x + turn pi/2) for 0 <= x < 2^15; fits to 2.4e-11 and 4.4e-10. x is less than a multiple of
// pi/2 by what three operations leave of it, the first of them exact: pi/2 is in three parts.
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes turned(float_lanes x, int turn) {
  const float_lanes shifter = all_lanes(12582912.0f);  // 1.5 2^23: the sum's low bits are n
  const float_lanes shifted = fused(x, all_lanes(0.636619747f), shifter);
  const float_lanes whole = shifter - shifted;
  const int_lanes n = int_lanes(shifted) + turn;
  const float_lanes first = fused(whole, all_lanes(1.57079637f), x);
  const float_lanes second = fused(whole, all_lanes(-4.37113883e-8f), first);
  const float_lanes r = fused(whole, all_lanes(-1.71512451e-15f), second);
  const float_lanes t = r * r;
  float_lanes odd = fused(all_lanes(2.70220991e-6f), t, all_lanes(-0.000198374706f));
  odd = fused(fused(odd, t, all_lanes(0.00833332259f)), t, all_lanes(-0.166666672f));
  float_lanes even = fused(all_lanes(2.41289927e-5f), t, all_lanes(-0.00138836214f));
  even = fused(fused(even, t, all_lanes(0.0416665077f)), t, all_lanes(-0.49999997f));
  const float_lanes value = n & 1 ? fused(even, t, all_lanes(1)) : fused(r * t, odd, r);
  return float_lanes(int_lanes(value) ^ ((n & 2) << 30));
}

FUSER_DEVICE bool all_turn(float_lanes x) {
  return __builtin_ia32_cmpps512_mask(x, all_lanes(32768.0f), 1, 0xffff, 4) == 0xffff;
}

// By the function of one number, where one is large or not finite.
template <class Function>
static __attribute__((noinline, cold)) float_lanes turned_apart(float_lanes x, Function function) {
  alignas(64) float numbers[16];
  *reinterpret_cast<float_lanes*>(numbers) = x;
#pragma omp simd
  for (int lane = 0; lane < 16; ++lane) numbers[lane] = function(numbers[lane]);
  return lanes_at(numbers);
}
#endif

//@ sin_lanes: sin(float), turned_lanes
// At most 1.6 ulp.
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes sin(float_lanes x) {
  const int_lanes sign = int_lanes(x) & int_lanes(all_lanes(-0.0f));
  const float_lanes a = float_lanes(int_lanes(x) ^ sign);
  if (!all_turn(a)) return turned_apart(x, [](float number) { return sin(number); });
  return float_lanes(int_lanes(turned(a, 0)) ^ sign);
}
#endif

//@ cos_lanes: cos(float), turned_lanes
// At most 1.6 ulp.
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes cos(float_lanes x) {
  const float_lanes a = float_lanes(int_lanes(x) & 0x7fffffff);
  if (!all_turn(a)) return turned_apart(x, [](float number) { return cos(number); });
  return turned(a, 1);
}
#endif

//@ truth_of_flag: truth
// Of a truth value that `read_flags` has read.
FUSER_DEVICE bool truth(const int& flag) { return flag != 0; }

//@ read_flags: truth_of_flag
// Reads truth values, each `Step` bytes after the one before, as numbers of 32 bits. No byte is read
// beyond the last value. (g++ makes no such conversion of vectors in one instruction.)
#if defined(__AVX2__) && !defined(__clang__)
#define FUSER_FLAG_VECTORS
typedef char flag_bytes __attribute__((vector_size(16), may_alias));
typedef flag_bytes flag_bytes_anywhere __attribute__((aligned(1)));
typedef long long flag_half __attribute__((aligned(1), may_alias));
typedef unsigned short flag_pairs __attribute__((vector_size(16), may_alias));
typedef flag_pairs flag_pairs_anywhere __attribute__((aligned(1)));
typedef short signed_pairs __attribute__((vector_size(16)));
typedef long long flag_halves __attribute__((vector_size(16)));
typedef int eight_flags __attribute__((vector_size(32), may_alias));
#endif
template <int Count, int Step>
FUSER_DEVICE void read_flags(int (&to)[Count], const bool* from) {
#if defined(FUSER_FLAG_VECTORS) && defined(__AVX512F__)
  if constexpr (Step == 1 && Count % 16 == 0) {
    typedef int lanes __attribute__((vector_size(64), may_alias));
    for (int lane = 0; lane < Count; lane += 16) {
      const flag_bytes read = *reinterpret_cast<const flag_bytes_anywhere*>(from + lane);
      *reinterpret_cast<lanes*>(to + lane) =
          lanes(__builtin_ia32_pmovzxbd512_mask(read, lanes{}, 0xffff));
    }
    return;
  }
#endif
#if defined(FUSER_FLAG_VECTORS)
  if constexpr (Step == 1 && Count % 8 == 0) {
    for (int lane = 0; lane < Count; lane += 8) {
      const flag_halves read = {*reinterpret_cast<const flag_half*>(from + lane), 0};
      *reinterpret_cast<eight_flags*>(to + lane) =
          eight_flags(__builtin_ia32_pmovzxbd256(flag_bytes(read)));
    }
    return;
  }
  if constexpr (Step == 2 && Count % 8 == 0 && Count > 8) {
    // Eight values are in fifteen bytes. Of the first ones the byte after them is read too, of the
    // others the one before.
    for (int lane = 0; lane < Count; lane += 8) {
      const bool* first = from + 2 * lane;
      const flag_pairs read = lane == 0
          ? *reinterpret_cast<const flag_pairs_anywhere*>(first) & 0xff
          : *reinterpret_cast<const flag_pairs_anywhere*>(first - 1) >> 8;
      *reinterpret_cast<eight_flags*>(to + lane) =
          eight_flags(__builtin_ia32_pmovzxwd256(signed_pairs(read)));
    }
    return;
  }
#endif
  for (int lane = 0; lane < Count; ++lane) to[lane] = truth(from[lane * Step]);
}

//@ read_steps: FUSER_DEVICE
// Reads numbers of 32 bits, each `Step` after the one before; no element is read beyond the last. (g++
// makes vectors of such a loop only where another element follows: of a few lanes, half as wide ones.)
#if defined(__AVX512F__)
#define FUSER_STEPPED 16
#define FUSER_EVEN 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31
#elif defined(__AVX2__)
#define FUSER_STEPPED 8
#define FUSER_EVEN 0, 2, 4, 6, 9, 11, 13, 15
#endif
template <int Count, int Step, class T>
FUSER_DEVICE void read_steps(T (&to)[Count], const T* from) {
#if defined(FUSER_STEPPED)
  if constexpr (Step == 2 && Count % FUSER_STEPPED == 0) {
    typedef T lanes __attribute__((vector_size(FUSER_STEPPED * sizeof(T)), may_alias));
    typedef lanes anywhere __attribute__((aligned(sizeof(T))));
    for (int lane = 0; lane < Count; lane += FUSER_STEPPED) {
      const T* first = from + 2 * lane;  // the second half begins one early, to end with the last
      const lanes low = *reinterpret_cast<const anywhere*>(first);
      const lanes high = *reinterpret_cast<const anywhere*>(first + FUSER_STEPPED - 1);
      *reinterpret_cast<lanes*>(to + lane) = __builtin_shufflevector(low, high, FUSER_EVEN);
    }
    return;
  }
#endif
  #pragma omp simd
  for (int lane = 0; lane < Count; ++lane) to[lane] = from[lane * Step];
}

//@ read_narrow_integers
// Reads integers of 8 or 16 bits as numbers of 32 bits.
template <int Count, class T>
static inline void read_narrow_integers(int (&to)[Count], const T* from) {
  typedef T narrow __attribute__((vector_size(Count * sizeof(T)), aligned(1), may_alias));
  typedef int wide __attribute__((vector_size(Count * sizeof(int)), may_alias));
  *reinterpret_cast<wide*>(to) =
      __builtin_convertvector(*reinterpret_cast<const narrow*>(from), wide);
}

//@ read_narrow_floats: narrow_float, read_narrow_integers
// Reads floats of 8 or 16 bits as float32: their bits first, so that nothing is narrow in the loop.
template <int Count, class Format>
static inline void read_narrow_floats(float (&to)[Count], const narrow_float<Format>* from) {
  alignas(64) int bits[Count];
  read_narrow_integers(bits, &from->bits);
  #pragma omp simd
  for (int lane = 0; lane < Count; ++lane) to[lane] = Format::widen(bits[lane]);
}
