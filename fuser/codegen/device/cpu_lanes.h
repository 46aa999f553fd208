// Functions of all lanes of a chunk at once, for what a compiler makes no vector code of: tables of
// sixteen numbers in a register, and scaling by powers of 2 that subnormal results survive. On
// processors without 512-bit vectors, they are loops over the functions of one number.
//
// Coefficients are fitted as those of cpu.h, and bounds were measured like those there.

//@ lane_vectors: FUSER_DEVICE
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

//@ low_bytes: lane_vectors, int32
// The lowest byte of each of so many lanes.
template <class Byte, int Count>
FUSER_DEVICE void low_bytes(Byte (&bytes)[Count], const int32 (&wide)[Count]) {
#if defined(FUSER_LANE_VECTORS)
  typedef int_lanes wide_lanes __attribute__((aligned(4)));
  typedef unsigned char byte_lanes __attribute__((vector_size(16), may_alias, aligned(1)));
  for (int lane = 0; lane < Count; lane += 16) {
    *reinterpret_cast<byte_lanes*>(bytes + lane) = __builtin_convertvector(
        *reinterpret_cast<const wide_lanes*>(wide + lane), byte_lanes);
  }
#else
#pragma omp simd
  for (int lane = 0; lane < Count; ++lane) bytes[lane] = Byte(wide[lane]);
#endif
}

//@ convert_lanes: low_bytes
// Numbers of 32 bits of all lanes as bytes. Each loop has numbers of one size.
template <class Byte, class T, int Count>
FUSER_DEVICE void convert_lanes(Byte (&results)[Count], const T (&given)[Count]) {
  int32 wide[Count];
#pragma omp simd
  for (int lane = 0; lane < Count; ++lane) wide[lane] = int32(given[lane]);
  low_bytes(results, wide);
}

//@ convert_lanes_floats: low_bytes, narrow_float
template <class Format, class T, int Count>
FUSER_DEVICE void convert_lanes(narrow_float<Format> (&results)[Count], const T (&given)[Count]) {
  int32 wide[Count];
#pragma omp simd
  for (int lane = 0; lane < Count; ++lane) wide[lane] = Format::narrow(float(given[lane]));
  low_bytes(reinterpret_cast<typename Format::word(&)[Count]>(results), wide);
}

//@ odd_by_table: lane_vectors
// An odd function of which a table has polynomials for |x| near 0, a step, 2 steps, ... 31 steps,
// and which no longer changes from there on.
#if defined(FUSER_LANE_VECTORS)
// `which` has the number of steps in its lowest bits; r is what |x| has more than those.
template <int Terms>
FUSER_DEVICE float_lanes odd_near(float_lanes which, float_lanes r, int_lanes sign,
                                  const float (&table)[Terms][32]) {
  return float_lanes(int_lanes(polynomial_by_table(which, r, table)) | sign);
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

//@ erf_lanes: erf(float), odd_by_table
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

//@ erf_narrow_lanes: erf(float), odd_by_table
// For results of 16 bits. The error is at most 4.8e-7, and 14 ulp.
FUSER_DEVICE float erf_narrow(float x) { return erf(x); }
#if defined(FUSER_LANE_VECTORS)
alignas(64) constexpr float erf_narrow_table[4][32] = {
    {0.0f, 0.140316084f, 0.27632609f, 0.404116601f, 0.520499468f, 0.62324053f, 0.711155355f,
     0.784074843f, 0.84270066f, 0.888388157f, 0.92290014f, 0.948170125f, 0.966105223f, 0.978443801f,
     0.986671746f, 0.991990149f, 0.995322347f, 0.997346044f, 0.998537302f, 0.999217093f,
     0.999593079f, 0.999794662f, 0.999899387f, 0.999952137f, 0.999977887f, 0.999990106f,
     0.999995708f, 0.999998212f, 0.999999285f, 0.999999702f, 0.999999881f, 1.0f},
    {1.12837923f, 1.11088693f, 1.06001806f, 0.980352461f, 0.878789544f, 0.763499558f, 0.642931461f,
     0.524745286f, 0.415107995f, 0.318273962f, 0.236521408f, 0.170359999f, 0.118930399f,
     0.0804722756f, 0.0527749471f, 0.0335458294f, 0.0206669848f, 0.0123408204f, 0.00714224437f,
     0.004006478f, 0.00217828434f, 0.0011478751f, 0.000586277223f, 0.000290222728f, 0.000139253054f,
     6.47586858e-05f, 2.91890246e-05f, 1.27517405e-05f, 5.39942675e-06f, 2.21592018e-06f,
     8.81432186e-07f, 0.0f},
    {-2.08813017e-05f, -0.138597116f, -0.264489532f, -0.366984814f, -0.438656867f, -0.476483196f,
     -0.481612563f, -0.458711594f, -0.414836586f, -0.357928991f, -0.295675278f, -0.234361768f,
     -0.178566515f, -0.130952433f, -0.0925382748f, -0.0630740374f, -0.0414838828f, -0.0263481978f,
     -0.0161386933f, -0.00957261957f, -0.00549201667f, -0.00305359811f, -0.00162781286f,
     -0.000837519125f, -0.000410194829f, -0.000205618431f, -0.000101732869f, -5.74582446e-05f,
     -3.33858698e-05f, -6.68255734e-06f, -5.59593673e-07f, 0.0f},
    {-0.375409544f, -0.358926475f, -0.310173422f, -0.234609291f, -0.148671567f, -0.0557454936f,
     0.0264816768f, 0.0926121995f, 0.137974918f, 0.162307486f, 0.16728352f, 0.157760546f,
     0.138665676f, 0.114827901f, 0.0901955292f, 0.067462422f, 0.0482518449f, 0.0330674686f,
     0.021785276f, 0.013747951f, 0.00836637896f, 0.00490637403f, 0.00276711234f, 0.00151066436f,
     0.000792998006f, 0.000401688914f, 0.000197039553f, 9.32249968e-05f, 4.25775979e-05f,
     1.8829076e-05f, 8.03276362e-06f, 0.0f}};
FUSER_DEVICE float_lanes erf_narrow(float_lanes x) {
  return odd_by_binary_table<3>(x, erf_narrow_table);
}
#endif

//@ normal_tail: lane_vectors
// What the normal distribution has above a, from 0 to 7.75, of which a table has polynomials near
// 0, 1/4, 1/2, ... In the end there is none any more.
#if defined(FUSER_LANE_VECTORS)
template <int Terms>
FUSER_DEVICE float_lanes normal_tail(float_lanes a, const float (&table)[Terms][32]) {
  const float_lanes which = a + all_lanes(12582912.0f / 4);  // the sum's low bits are the entry
  return polynomial_by_table(which, __builtin_ia32_reduceps512_mask(a, 2 << 4, a, 0xffff), table);
}

// Of NaN, NaN.
template <int Terms>
FUSER_DEVICE float_lanes normal_below(float_lanes x, const float (&table)[Terms][32]) {
  const float_lanes size = float_lanes(int_lanes(x) & 0x7fffffff);
  const float_lanes tail = normal_tail(at_most(7.75f, size), table);
  return x > 0 ? 1 - tail : tail;
}

// x times what is below it. The smaller of |x| and 7.75 is one instruction, for which NaN is larger.
template <int Terms>
FUSER_DEVICE float_lanes gelu_by_table(float_lanes x, const float (&table)[Terms][32]) {
  const int smaller_size = 0x0a;
  const float_lanes a =
      __builtin_ia32_rangeps512_mask(x, all_lanes(7.75f), smaller_size, x, 0xffff, 4);
  const float_lanes tail = normal_tail(a, table);
  return x * (x > 0 ? 1 - tail : tail);
}
#endif

//@ normal_tail_table: lane_vectors
#if defined(FUSER_LANE_VECTORS)
alignas(64) constexpr float tail_table[5][32] = {
    {0.5f, 0.40129367f, 0.30853754f, 0.22662735f, 0.15865526f, 0.10564978f, 0.0668072f,
     0.04005916f, 0.022750134f, 0.012224473f, 0.006209665f, 0.0029797624f, 0.0013498972f,
     0.00057702436f, 0.00023262862f, 8.8417e-05f, 3.1671087e-05f, 1.0688447e-05f,
     3.3976369e-06f, 1.0170679e-06f, 2.866456e-07f, 7.604954e-08f, 1.8989688e-08f,
     4.462212e-09f, 9.865994e-10f, 2.0522953e-10f, 4.0160812e-11f, 7.392449e-12f,
     1.2798544e-12f, 2.0839435e-13f, 3.1910543e-14f, 0.0f},
    {-0.3989421f, -0.38666758f, -0.35206506f, -0.30113742f, -0.24197103f, -0.18264952f,
     -0.12951803f, -0.08627762f, -0.053991124f, -0.031739682f, -0.017528255f, -0.009093481f,
     -0.0044317683f, -0.0020289856f, -0.000872641f, -0.0003525712f, -0.0001338173f,
     -4.771243e-05f, -1.5981017e-05f, -5.028409e-06f, -1.486311e-06f, -4.1269982e-07f,
     -1.0764653e-07f, -2.6377155e-08f, -6.071634e-09f, -1.3129017e-09f, -2.6669025e-10f,
     -5.088968e-11f, -9.12219e-12f, -1.5360825e-12f, -2.4298258e-13f, 0.0f},
    {-1.3122956e-05f, 0.048335563f, 0.08801567f, 0.11292704f, 0.1209841f, 0.11415421f,
     0.097137146f, 0.075491436f, 0.053990442f, 0.035707086f, 0.021910671f, 0.0125040915f,
     0.006648188f, 0.0032975392f, 0.0015274216f, 0.000661256f, 0.0002677366f, 0.00010144035f,
     3.5980996e-05f, 1.1952504e-05f, 3.719694e-06f, 1.0837458e-06f, 2.9606463e-07f,
     7.584537e-08f, 1.8217952e-08f, 4.1036126e-09f, 8.6693625e-10f, 1.7179615e-10f,
     3.1936873e-11f, 5.570123e-12f, 9.115219e-13f, 0.0f},
    {0.06680819f, 0.060259957f, 0.043924738f, 0.021957953f, 7.8689314e-05f, -0.01700803f,
     -0.026869299f, -0.02957586f, -0.026952604f, -0.02148171f, -0.015349837f, -0.009967627f,
     -0.005930388f, -0.0032503968f, -0.0016473801f, -0.00077417964f, -0.00033805086f,
     -0.00013737656f, -5.2021143e-05f, -1.8375e-05f, -6.0592447e-06f, -1.8671983e-06f,
     -5.3805456e-07f, -1.4493044e-07f, -3.6525822e-08f, -8.616036e-09f, -1.902922e-09f,
     -3.9360532e-10f, -7.626678e-11f, -1.384646e-11f, -2.3558926e-12f, 0.0f},
    {-0.0030301188f, -0.011904402f, -0.020102978f, -0.022911446f, -0.020052085f, -0.013574396f,
     -0.00600981f, 0.00044605194f, 0.004510281f, 0.0061227535f, 0.0059066103f, 0.0047238297f,
     0.0032986375f, 0.0020591593f, 0.0011652283f, 0.0006024348f, 0.00028624618f,
     0.00012546772f, 5.0884326e-05f, 1.913649e-05f, 6.685153e-06f, 2.2371137e-06f,
     6.867877e-07f, 1.9460934e-07f, 5.1456418e-08f, 1.2702889e-08f, 2.9296854e-09f,
     6.3155636e-10f, 1.2730529e-10f, 2.4004628e-11f, 4.235498e-12f, 0.0f}};
#endif

//@ normal_tail_narrow_table: lane_vectors
#if defined(FUSER_LANE_VECTORS)
alignas(64) constexpr float tail_narrow_table[4][32] = {
    {0.5f, 0.40129402f, 0.30853814f, 0.22662805f, 0.15865587f, 0.10565019f, 0.06680738f,
     0.04005915f, 0.022750001f, 0.012224295f, 0.0062094945f, 0.002979627f, 0.0013498035f,
     0.0005769665f, 0.00023259623f, 8.8400455e-05f, 3.1663327e-05f, 1.0685094e-05f,
     3.3962974e-06f, 1.0166005e-06f, 2.8644092e-07f, 7.5980914e-08f, 1.8968702e-08f,
     4.456266e-09f, 9.850272e-10f, 2.0484145e-10f, 4.0071318e-11f, 7.373158e-12f,
     1.2759661e-12f, 2.0766125e-13f, 3.1781205e-14f, 0.0f},
    {-0.3989433f, -0.38666603f, -0.35206267f, -0.30113488f, -0.24196862f, -0.18264768f,
     -0.12951723f, -0.08627784f, -0.053992186f, -0.031741157f, -0.017529743f, -0.009094744f,
     -0.0044327034f, -0.002029605f, -0.00087301206f, -0.00035277382f, -0.00013391876f,
     -4.7759193e-05f, -1.6000915e-05f, -5.0320887e-06f, -1.4859883e-06f, -4.1259295e-07f,
     -1.0761571e-07f, -2.6367928e-08f, -6.0690657e-09f, -1.3122362e-09f, -2.665296e-10f,
     -5.0853512e-11f, -9.114592e-12f, -1.5345921e-12f, -2.4270953e-13f, 0.0f},
    {4.236665e-05f, 0.04815014f, 0.08770309f, 0.11256937f, 0.120671414f, 0.113942556f,
     0.09704368f, 0.07549784f, 0.054060135f, 0.035801638f, 0.022001745f, 0.012576794f,
     0.0066988585f, 0.0033290866f, 0.0015452272f, 0.00067043543f, 0.00027208455f,
     0.00010333979f, 3.67486e-05f, 1.2238082e-05f, 3.8242874e-06f, 1.1187597e-06f,
     3.0680462e-07f, 7.88886e-08f, 1.9022615e-08f, 4.302251e-09f, 9.1274727e-10f,
     1.816715e-10f, 3.3927448e-11f, 5.945456e-12f, 9.777462e-13f, 0.0f},
    {0.06606442f, 0.060128488f, 0.043721832f, 0.021737458f, -0.00013236044f, -0.017166264f,
     -0.0269379f, -0.029554693f, -0.02686107f, -0.02135534f, -0.0152222095f, -0.009859266f,
     -0.0058500944f, -0.003197153f, -0.0016154454f, -0.00075672095f, -0.00032929663f,
     -0.00013333574f, -5.0299055e-05f, -1.8048819e-05f, -6.0867906e-06f, -1.8763158e-06f,
     -5.4067937e-07f, -1.4571661e-07f, -3.6744712e-08f, -8.6727585e-09f, -1.9166146e-09f,
     -3.9668793e-10f, -7.691416e-11f, -1.3973476e-11f, -2.3791637e-12f, 0.0f}};
#endif

//@ normal_cdf_lanes: normal_cdf(float), normal_tail, normal_tail_table
// Off by 1.2 2^-24, or as many ulp of more than 1/2; below -5, by 1e-4 of what there is.
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes normal_cdf(float_lanes x) { return normal_below(x, tail_table); }
#endif

//@ normal_cdf_narrow_lanes: normal_cdf(float), normal_tail, normal_tail_narrow_table
// For results of 16 bits: off by 14.5 2^-24.
FUSER_DEVICE float normal_cdf_narrow(float x) { return normal_cdf(x); }
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes normal_cdf_narrow(float_lanes x) {
  return normal_below(x, tail_narrow_table);
}
#endif

//@ gelu_lanes: gelu(float), normal_tail, normal_tail_table
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes gelu(float_lanes x) { return gelu_by_table(x, tail_table); }
#endif

//@ gelu_narrow_lanes: gelu(float), normal_tail, normal_tail_narrow_table
FUSER_DEVICE float gelu_narrow(float x) { return gelu(x); }
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes gelu_narrow(float_lanes x) { return gelu_by_table(x, tail_narrow_table); }
#endif

//@ tanh_lanes: tanh(float), odd_by_table
// At most 1.9 ulp.
#if defined(FUSER_LANE_VECTORS)
alignas(64) constexpr float tanh_table[6][32] = {
    {0.0f, 0.288450181f, 0.53258729f, 0.711702287f, 0.829801917f, 0.902284443f, 0.944829464f,
     0.969150901f, 0.982845008f, 0.990489602f, 0.994736671f, 0.997089863f, 0.998391807f,
     0.999111593f, 0.999509275f, 0.999728978f, 0.999850333f, 0.999917328f, 0.999954343f,
     0.999974787f, 0.999986053f, 0.999992311f, 0.999995768f, 0.999997675f, 0.999998689f,
     0.999999285f, 0.999999583f, 0.999999762f, 0.999999881f, 0.99999994f, 0.99999994f, 1.0f},
    {1.0f, 0.916796744f, 0.716351032f, 0.493479848f, 0.311428785f, 0.185882777f, 0.107297339f,
     0.0607465394f, 0.0340156481f, 0.0189303514f, 0.0104989931f, 0.00581178302f, 0.00321375742f,
     0.00177608407f, 0.000981237041f, 0.000542009657f, 0.000299362495f, 0.000165334757f,
     9.13099066e-05f, 5.04271484e-05f, 2.78488315e-05f, 1.53796809e-05f, 8.49349544e-06f,
     4.69056295e-06f, 2.59037756e-06f, 1.43054319e-06f, 7.90021204e-07f, 4.36291231e-07f,
     2.4094291e-07f, 1.33061334e-07f, 7.34833989e-08f, 0.0f},
    {6.53564086e-07f, -0.264430135f, -0.381513894f, -0.351212114f, -0.258429587f, -0.167720854f,
     -0.101388358f, -0.0588742681f, -0.0334243961f, -0.0187508538f, -0.0104506621f, -0.00579072069f,
     -0.00320093357f, -0.00178516575f, -0.000985786202f, -0.00054882851f, -0.000308437273f,
     -0.000165012665f, -9.08834045e-05f, -5.08337216e-05f, -1.95284028e-05f, -1.56947917e-05f,
     -1.38627402e-05f, -1.21877038e-05f, 3.24452549e-06f, -1.43635623e-06f, 7.2572052e-06f,
     6.90517845e-06f, -6.98015072e-07f, -2.64118853e-06f, 8.68322513e-06f, 0.0f},
    {-0.333374113f, -0.229368195f, -0.035641335f, 0.0854605138f, 0.110632807f, 0.0893717408f,
     0.0600191392f, 0.0368078873f, 0.021520108f, 0.0122619215f, 0.00688907318f, 0.00384071702f,
     0.00213218271f, 0.00118090247f, 0.000653199968f, 0.000361047365f, 0.000199485468f,
     0.000110195251f, 6.08643422e-05f, 3.36155135e-05f, 1.85649787e-05f, 1.02528611e-05f,
     5.66228255e-06f, 3.12698444e-06f, 1.72689727e-06f, 9.53684321e-07f, 5.26679571e-07f,
     2.90859191e-07f, 1.60629767e-07f, 8.87062015e-08f, 3.067953e-06f, 0.0f},
    {0.000747766811f, 0.15192318f, 0.145230383f, 0.0566174164f, -0.00505490927f, -0.0244935099f,
     -0.0223965496f, -0.0159805454f, -0.010372946f, -0.005884137f, -0.00306655886f, -0.00209101802f,
     -0.00140880654f, -0.000107461099f, -9.9155237e-05f, 0.000134501359f, 0.000312890479f,
     -6.92046015e-05f, -4.96363464e-05f, 1.60855404e-06f, -0.000385977939f, 9.12981159e-06f,
     0.000240241032f, 0.000337846286f, -0.000265026174f, -2.15031392e-07f, -0.000364581705f,
     -0.000332512136f, 2.0612224e-05f, 0.000113504568f, -0.000420359604f, 0.0f},
    {0.128777608f, 0.0540553704f, -0.0475485623f, -0.0571736693f, -0.0253982693f, -0.00352431182f,
     0.00397542585f, 0.00461260276f, 0.00341596454f, 0.00217393017f, 0.00129389262f,
     0.000743709097f, 0.000418969925f, 0.000234185893f, 0.000130037515f, 7.21010729e-05f,
     3.99166347e-05f, 2.20875427e-05f, 1.2213527e-05f, 6.73872864e-06f, 3.72536852e-06f,
     2.05608262e-06f, 1.13433236e-06f, 6.27977272e-07f, 3.46644185e-07f, 1.91478776e-07f,
     1.05605778e-07f, 5.83552691e-08f, 3.21643547e-08f, 1.78249095e-08f, -0.000294322788f, 0.0f}};
FUSER_DEVICE float_lanes tanh(float_lanes x) { return odd_by_table(x, 0.296875f, tanh_table); }
#endif

//@ tanh_narrow_lanes: tanh(float), odd_by_table
// For results of 16 bits. The error is at most 3.6e-7, and 12.2 ulp.
FUSER_DEVICE float tanh_narrow(float x) { return tanh(x); }
#if defined(FUSER_LANE_VECTORS)
alignas(64) constexpr float tanh_narrow_table[5][32] = {
    {0.0f, 0.288450003f, 0.532587409f, 0.711702287f, 0.829801917f, 0.902284443f, 0.944829464f,
     0.969150901f, 0.982845008f, 0.990489602f, 0.994736671f, 0.997089863f, 0.998391807f,
     0.999111593f, 0.999509275f, 0.999728978f, 0.999850333f, 0.999917328f, 0.999954343f,
     0.999974787f, 0.999986053f, 0.999992311f, 0.999995768f, 0.999997675f, 0.999998689f,
     0.999999285f, 0.999999583f, 0.999999762f, 0.999999881f, 0.99999994f, 0.99999994f, 1.0f},
    {1.0f, 0.916789055f, 0.716358066f, 0.493488371f, 0.3114326f, 0.185883269f, 0.10729713f,
     0.0607458986f, 0.0340154059f, 0.0189300478f, 0.0104989931f, 0.00581178302f, 0.00321375742f,
     0.00177608407f, 0.000981237041f, 0.000542009657f, 0.000299362495f, 0.000165334757f,
     9.13099066e-05f, 5.04271484e-05f, 2.78486423e-05f, 1.53796809e-05f, 8.49342905e-06f,
     4.69052475e-06f, 2.59035642e-06f, 1.43054319e-06f, 7.90014781e-07f, 4.36287678e-07f,
     2.40940977e-07f, 1.33060254e-07f, 7.34869516e-08f, 0.0f},
    {7.31693581e-05f, -0.264379472f, -0.381544918f, -0.351214319f, -0.258430421f, -0.167721525f,
     -0.101381719f, -0.0588730238f, -0.0334293172f, -0.0187503491f, -0.0104479529f, -0.0057922639f,
     -0.00320165488f, -0.00178477447f, -0.00098556804f, -0.000548709242f, -0.000308371615f,
     -0.000165051431f, -9.09039081e-05f, -5.08225166e-05f, -1.9531215e-05f, -1.5691403e-05f,
     -1.38623418e-05f, -1.21876174e-05f, 3.24449161e-06f, -1.4360329e-06f, 7.25720292e-06f,
     6.90517754e-06f, -6.9801132e-07f, -2.6411883e-06f, 8.20657806e-06f, 0.0f},
    {-0.336416364f, -0.227907628f, -0.0369414315f, 0.0838932171f, 0.109935001f, 0.0892770514f,
     0.0601070262f, 0.0369318165f, 0.021599168f, 0.0123204086f, 0.00691170665f, 0.00385368057f,
     0.00213735388f, 0.00118371879f, 0.000654745032f, 0.000361999293f, 0.000200154449f,
     0.000110475594f, 6.10059215e-05f, 3.36979065e-05f, 1.86449524e-05f, 1.02833828e-05f,
     5.68716769e-06f, 3.14084741e-06f, 1.73455442e-06f, 9.55967153e-07f, 5.29011288e-07f,
     2.92147803e-07f, 1.6133842e-07f, 8.9099494e-08f, -2.20644676e-08f, 0.0f},
    {0.0368053578f, 0.149768502f, 0.146515816f, 0.0567338876f, -0.00501712784f, -0.024456976f,
     -0.022755187f, -0.0160470176f, -0.010107616f, -0.00591092091f, -0.00322882133f,
     -0.00199806015f, -0.0013488367f, -0.000140663891f, -0.000117835967f, 0.000125151215f,
     0.000309089315f, -6.60645164e-05f, -4.78559778e-05f, 6.69768383e-07f, -0.000385939929f,
     8.89590865e-06f, 0.000240261506f, 0.000337900477f, -0.000265024311f, -2.42635878e-07f,
     -0.000364581589f, -0.000332512078f, 2.06156092e-05f, 0.000113504553f, -0.000375574775f, 0.0f}};
FUSER_DEVICE float_lanes tanh_narrow(float_lanes x) {
  return odd_by_table(x, 0.296875f, tanh_narrow_table);
}
#endif

//@ exp_near: lane_vectors
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

//@ exp_lanes: exp(float), exp_near
// At most 1.0 ulp.
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes exp(float_lanes x) {
  return exp_near<2>(at_most(90.0f, x), -104.0f);
}

// e^-|x|
FUSER_DEVICE float_lanes exp_of_size(float_lanes x) {
  return exp_near<2>(float_lanes(int_lanes(x) | int_lanes(all_lanes(-0.0f))), -104.0f);
}
#endif

//@ exp_nonpositive_lanes: exp_nonpositive(float), exp_near
// e^x for x <= 0 and NaN. At most (1 + 0.05 |x|) ulp: ln2 is one number, off by 1.9e-9. The
// exponentials of a softmax, of differences from the largest, add up to 1 at least. It is 0 in place
// of results below 2^-126.
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes exp_nonpositive(float_lanes x) {
  return exp_near<1>(x, -87.33654f);
}
#endif

//@ exp_narrow_lanes: exp(float), exp_near
// For results of 16 bits. The error is at most (13.1 + |x|) ulp: t = x log2(e) is rounded, once for
// both that read it, and (2^r - 1) / r is linear for |r| <= 1/32. Nothing is clamped: what huge x
// look up is scaled to infinity, or 0.
FUSER_DEVICE float exp_narrow(float x) { return exp(x); }
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes exp_narrow(float_lanes x) {
  const float_lanes t = x * all_lanes(1.44269502f), shifter = all_lanes(786432.0f);
  const float_lanes shifted = __builtin_ia32_addps512_mask(t, shifter, t, 0xffff, 4);
  const float_lanes r = __builtin_ia32_reduceps512_mask(t, 4 << 4, t, 0xffff);
  const float_lanes slope = fused(r, all_lanes(0.24022688f), all_lanes(0.693187773f));
  return power_near(shifted, shifted - shifter, r, slope);
}
#endif

//@ sigmoid_lanes: sigmoid(float), exp_lanes
// At most 3.1 ulp.
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes sigmoid(float_lanes x) {
  const float_lanes small = exp_of_size(x);
  return (x < 0 ? small : all_lanes(1)) / (1 + small);
}
#endif

//@ silu_lanes: silu(float), exp_lanes
// At most 3.7 ulp. Below 2^-126 the error is 2^-143.
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes silu(float_lanes x) {
  const float_lanes small = exp_of_size(x);
  return (x < 0 ? x * small : x) / (1 + small);
}
#endif

//@ sigmoid_narrow_lanes: sigmoid(float), exp_narrow_lanes
// For results of 16 bits. The error is at most (13 + |x|) ulp; it is the result where that is
// below 2^-127.
FUSER_DEVICE float sigmoid_narrow(float x) { return sigmoid(x); }
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes sigmoid_narrow(float_lanes x) { return 1 / (1 + exp_narrow(-x)); }
#endif

//@ silu_narrow_lanes: silu(float), exp_narrow_lanes
// For results of 16 bits. The error is at most (13 + |x|) ulp; below -88 it is the result.
FUSER_DEVICE float silu_narrow(float x) { return silu(x); }
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes silu_narrow(float_lanes x) { return x / (1 + exp_narrow(-x)); }
#endif

//@ log_near: lane_vectors
// A logarithm to any base: n log(2) + log(c) + log(m / c) for x = m 2^n with 3/4 <= m < 3/2, where c
// belongs to m's highest bits, 1 near 1, and log(m / c) is r + r^2 polynomial(r); the error of the
// fit is 2.8e-9 of it. The 1 / c are chosen so that all three tables are almost exact.
#if defined(FUSER_LANE_VECTORS)
alignas(64) constexpr float inverse_centres[16] = {
    1.0f,        0.915031672f, 0.863374472f, 0.81821084f, 0.781781435f, 0.741898596f,
    0.713299274f, 0.68047297f, 1.30509257f,  1.25622809f, 1.2094847f,   1.16236031f,
    1.12482309f, 1.08591866f,  1.04952693f,  1.0f};

FUSER_DEVICE float_lanes exponent_of(float_lanes x) {
  return __builtin_ia32_getexpps512_mask(x, x, 0xffff, 4);
}

// 2^-n x for finite n, else 0.
FUSER_DEVICE float_lanes scaled_down(float_lanes x, float_lanes n) {
  const lane_set finite = __builtin_ia32_cmpps512_mask(n - n, float_lanes{}, 0, 0xffff, 4);
  return __builtin_ia32_scalefps512_mask(x, -n, float_lanes{}, finite, 4);
}

// `of_2` and `rest_of_2` are the logarithm of 2 in two parts, `of_e` is that of e. A `rest` is what
// x lacks of the number whose logarithm it is.
template <class... Rest>
FUSER_DEVICE float_lanes log_near(float_lanes x, const float (&of_centres)[16], float of_2,
                                  float rest_of_2, float of_e, Rest... rest) {
  const float_lanes m = __builtin_ia32_getmantps512_mask(x, 11, x, 0xffff, 4);  // NaN below 0
  const float_lanes n = exponent_of(x) - exponent_of(m);  // infinite for 0 and infinity
  const float_lanes which = float_lanes(int_lanes(m) >> 19);
  const float_lanes inverse = looked_up(which, inverse_centres);
  float_lanes r = fused(m, inverse, all_lanes(-1));
  ((r = fused(scaled_down(rest, n), inverse, r)), ...);
  float_lanes curve = fused(all_lanes(0.188552305f), r, all_lanes(-0.250066698f));
  curve = fused(fused(curve, r, all_lanes(0.33334446f)), r, all_lanes(-0.5f));
  const float_lanes whole = fused(n, all_lanes(of_2), looked_up(which, of_centres));
  float_lanes part = fused(r * r, curve, r);
  if (of_e != 1) part = part * of_e;
  if (rest_of_2 != 0) part = fused(n, all_lanes(rest_of_2), part);
  return whole + part;
}

alignas(64) constexpr float log_of_centres[16] = {
    0.0f,          0.0887966007f,  0.146906763f,  0.200635225f,  0.246180072f,  0.298542708f,
    0.337854207f,  0.384967178f,   -0.266273975f, -0.228113651f, -0.190194398f, -0.150452688f,
    -0.117625773f, -0.0824263245f, -0.0483395196f, 0.0f};
#endif

//@ log_lanes: log(float), log_near
// At most 1.7 ulp.
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes log(float_lanes x) {
  return log_near(x, log_of_centres, 0.693147182f, 0.0f, 1.0f);
}
#endif

//@ log1p_lanes: log1p(float), log_near
// At most 1.7 ulp. Of 1 + x, and what the sum lost.
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes log1p(float_lanes x) {
  const float_lanes sum = x + all_lanes(1), of_x = sum - all_lanes(1);
  const float_lanes value = log_near(sum, log_of_centres, 0.693147182f, 0.0f, 1.0f, x - of_x);
  return float_lanes(int_lanes(value) | sign_of(x));
}
#endif

//@ log2_lanes: log2(float), log_near
// At most 1.7 ulp; of powers of 2, exact.
#if defined(FUSER_LANE_VECTORS)
alignas(64) constexpr float log2_of_centres[16] = {
    0.0f,         0.128106415f,  0.211941659f,  0.289455444f,
    0.35516277f,  0.430706084f,  0.487420589f,  0.555390239f,
    -0.384152144f, -0.329098433f, -0.274392515f, -0.217057347f,
    -0.169698119f, -0.11891605f, -0.0697391853f, 0.0f};
FUSER_DEVICE float_lanes log2(float_lanes x) {
  return log_near(x, log2_of_centres, 1.0f, 0.0f, 1.44269502f);
}
#endif

//@ log10_lanes: log10(float), log_near
// At most 1.9 ulp.
#if defined(FUSER_LANE_VECTORS)
alignas(64) constexpr float log10_of_centres[16] = {
    0.0f,          0.0385638736f,  0.0638007969f,  0.087134771f,
    0.106914647f,  0.129655451f,   0.146728218f,   0.167189121f,
    -0.115641318f, -0.0990685001f, -0.0826003775f, -0.0653407723f,
    -0.0510842241f, -0.035797298f, -0.0209935866f, 0.0f};
FUSER_DEVICE float_lanes log10(float_lanes x) {
  return log_near(x, log10_of_centres, 0.301025391f, 4.60503894e-6f, 0.434294492f);
}
#endif

//@ turned_lanes: lane_vectors
// x = n pi/2 + r for 0 <= x < 2^15, and the sine and the cosine of r; fits to 2.4e-11 and 4.4e-10.
// r is what three operations leave of x, the first of them exact: pi/2 is in three parts.
#if defined(FUSER_LANE_VECTORS)
struct turned_lanes {
  float_lanes sine, cosine;
  int_lanes n;
};
FUSER_DEVICE turned_lanes turned(float_lanes x) {
  const float_lanes shifter = all_lanes(12582912.0f);  // 1.5 2^23: the sum's low bits are n
  const float_lanes shifted = fused(x, all_lanes(0.636619747f), shifter);
  const float_lanes whole = shifter - shifted;
  const float_lanes first = fused(whole, all_lanes(1.57079637f), x);
  const float_lanes second = fused(whole, all_lanes(-4.37113883e-8f), first);
  const float_lanes r = fused(whole, all_lanes(-1.71512451e-15f), second);
  const float_lanes t = r * r;
  float_lanes odd = fused(all_lanes(2.70220991e-6f), t, all_lanes(-0.000198374706f));
  odd = fused(fused(odd, t, all_lanes(0.00833332259f)), t, all_lanes(-0.166666672f));
  float_lanes even = fused(all_lanes(2.41289927e-5f), t, all_lanes(-0.00138836214f));
  even = fused(fused(even, t, all_lanes(0.0416665077f)), t, all_lanes(-0.49999997f));
  return {fused(r * t, odd, r), fused(even, t, all_lanes(1)), int_lanes(shifted)};
}

// sin(x + turn pi/2)
FUSER_DEVICE float_lanes turned(float_lanes x, int turn) {
  const turned_lanes of = turned(x);
  const int_lanes n = of.n + turn;
  return float_lanes(int_lanes(n & 1 ? of.cosine : of.sine) ^ ((n & 2) << 30));
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

// An odd function: `all` of |x|, and `one` where that is too large.
template <class One, class All>
FUSER_DEVICE float_lanes odd_turned(float_lanes x, One one, All all) {
  const int_lanes sign = sign_of(x);
  const float_lanes a = float_lanes(int_lanes(x) ^ sign);
  if (!all_turn(a)) return turned_apart(x, one);
  return float_lanes(int_lanes(all(a)) ^ sign);
}
#endif

//@ sin_lanes: sin(float), turned_lanes
// At most 1.6 ulp.
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes sin(float_lanes x) {
  return odd_turned(
      x, [](float number) { return sin(number); }, [](float_lanes a) { return turned(a, 0); });
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

//@ tan_lanes: tan(float), turned_lanes
// At most 3.5 ulp.
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE float_lanes tan_of_size(float_lanes a) {
  const turned_lanes of = turned(a);
  return of.n & 1 ? -of.cosine / of.sine : of.sine / of.cosine;
}
FUSER_DEVICE float_lanes tan(float_lanes x) {
  return odd_turned(
      x, [](float number) { return tan(number); }, [](float_lanes a) { return tan_of_size(a); });
}
#endif

//@ truth_of_flag: truth
// Of a truth value that `read_flags` has read, or `flag_of` made.
FUSER_DEVICE bool truth(const int& flag) { return flag != 0; }

//@ place_of_truths: FUSER_DEVICE
// A place that is 0, 1 or another small number by truth values. g++ 12 takes one that is nothing but
// a comparison for -1 where it is true, if it gathers by it, and sees that through all conversions and
// choices; not through this sum, which might be rounded.
template <class T>
FUSER_DEVICE int place_of_truths(T place) {
  return int(double(int(place)) + 2.0) - 2;
}

//@ apart: FUSER_DEVICE
// A number that is stored beside others. g++ makes vectors of such a group of stores, and of what is
// stored, if all of it is made alike, and then none along the loop; with this, it is not alike.
template <class T>
FUSER_DEVICE T apart(T x) {
#ifdef __has_builtin
#if __has_builtin(__builtin_assoc_barrier)
  if constexpr (__is_class(T)) {
    x.bits = __builtin_assoc_barrier(x.bits);
  } else {
    x = __builtin_assoc_barrier(x);
  }
#endif
#endif
  return x;
}

//@ flag_of: FUSER_DEVICE, truth_of_flag
// A truth value that is known before a loop, as a number of which g++ does not see where it is from:
// it makes vectors of choices by comparisons in the loop, and of no others.
FUSER_DEVICE int flag_of(bool value) {
  int flag = value;
  __asm__("" : "+r"(flag));
  return flag;
}

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

//@ read_bfloat16: lane_vectors, bfloat16
// Reads vectors of bfloat16 as float32. The bits of each are moved to the upper half of a lane by one
// instruction, where widening and shifting them are two.
template <int Count>
FUSER_DEVICE void read_bfloat16(float (&to)[Count], const bfloat16* from) {
  static_assert(Count % 16 == 0, "whole vectors");
#if defined(FUSER_LANE_VECTORS) && defined(__AVX512BW__)
  typedef short words __attribute__((vector_size(64), may_alias));
  typedef short half __attribute__((vector_size(32), aligned(2), may_alias));
  constexpr words places = {0, 0, 0, 1, 0, 2,  0, 3,  0, 4,  0, 5,  0, 6,  0, 7,
                            0, 8, 0, 9, 0, 10, 0, 11, 0, 12, 0, 13, 0, 14, 0, 15};
#pragma GCC unroll 4
  for (int lane = 0; lane < Count; lane += 16) {
    const half given = *reinterpret_cast<const half*>(from + lane);
    const words wide = __builtin_shufflevector(given, given, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
                                               13, 14, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                               -1, -1, -1, -1, -1, -1);
    const words moved = __builtin_ia32_permvarhi512_mask(wide, places, words{}, 0xaaaaaaaa);
    *reinterpret_cast<words*>(to + lane) = moved;
  }
#else
#pragma omp simd
  for (int lane = 0; lane < Count; ++lane) to[lane] = float(from[lane]);
#endif
}

//@ read_half: lane_vectors, half
// Reads vectors of float16 as float32, by the processor where it has instructions for it.
template <int Count>
FUSER_DEVICE void read_half(float (&to)[Count], const half* from) {
  static_assert(Count % 16 == 0, "whole vectors");
#if defined(FUSER_LANE_VECTORS)
  typedef short halves __attribute__((vector_size(32), aligned(2), may_alias));
#pragma GCC unroll 4
  for (int lane = 0; lane < Count; lane += 16) {
    *reinterpret_cast<float_lanes*>(to + lane) = __builtin_ia32_vcvtph2ps512_mask(
        *reinterpret_cast<const halves*>(from + lane), float_lanes{}, 0xffff, 4);
  }
#elif defined(__F16C__)
  typedef short halves __attribute__((vector_size(16), aligned(2), may_alias));
  typedef float floats __attribute__((vector_size(32), may_alias));
  for (int lane = 0; lane < Count; lane += 8) {
    *reinterpret_cast<floats*>(to + lane) =
        __builtin_ia32_vcvtph2ps256(*reinterpret_cast<const halves*>(from + lane));
  }
#else
#pragma omp simd
  for (int lane = 0; lane < Count; ++lane) to[lane] = float(from[lane]);
#endif
}
