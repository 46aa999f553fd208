// Functions of float64 of all lanes of a chunk at once, as cpu_lanes.h has them of float32: with
// tables, estimates of roots and quotients, and paths that are taken only where a lane needs them.
// On processors without 512-bit vectors, they are loops over the functions of one number.
//
// Coefficients are those of polynomials through Chebyshev's points (in mpmath, then rounded), and
// bounds were measured as those of cpu_float64.h.

//@ wide_lanes: lane_vectors, FUSER_DEVICE, int64
// Eight lanes.
#if defined(FUSER_LANE_VECTORS)
typedef double double_lanes __attribute__((vector_size(64)));
typedef int64 int64_lanes __attribute__((vector_size(64)));
typedef double_lanes double_lanes_anywhere __attribute__((aligned(8), may_alias));
typedef unsigned char wide_set;

FUSER_DEVICE double_lanes lanes_at(const double* at) {
  return *reinterpret_cast<const double_lanes_anywhere*>(at);
}
FUSER_DEVICE double_lanes all_wide(double x) { return x - double_lanes{}; }
FUSER_DEVICE int64_lanes sign_of(double_lanes x) {
  return int64_lanes(x) & int64_lanes(all_wide(-0.0));
}
FUSER_DEVICE double_lanes fused(double_lanes x, double_lanes y, double_lanes z) {
  return __builtin_ia32_vfmaddpd512_mask(x, y, z, 0xff, 4);
}
// A polynomial in x: its even powers beside its odd ones, so that half as many operations wait for
// each other, but for the last two, which round as they do one after the other.
template <int Terms, class Coefficient>
FUSER_DEVICE double_lanes side_by_side(double_lanes x, Coefficient coefficient) {
  const double_lanes square = x * x;
  double_lanes before = coefficient(Terms - 1), value = coefficient(Terms - 2);
#pragma GCC unroll 16
  for (int term = Terms - 3; term >= 1; --term) {
    const double_lanes next = fused(before, square, coefficient(term));
    before = value;
    value = next;
  }
  return fused(fused(before, x, value), x, coefficient(0));
}
template <int Terms>
FUSER_DEVICE double_lanes fused_polynomial(double_lanes x, const double (&coefficients)[Terms]) {
  return side_by_side<Terms>(x, [&](int term) { return all_wide(coefficients[term]); });
}
// By the lowest four bits of each lane.
FUSER_DEVICE double_lanes looked_up(int64_lanes which, const double (&table)[16]) {
  return __builtin_ia32_vpermt2varpd512_mask(which, lanes_at(table), lanes_at(table + 8), 0xff);
}
// A polynomial of which the lowest bits of `which` choose the coefficients.
template <int Terms>
FUSER_DEVICE double_lanes polynomial_by_table(int64_lanes which, double_lanes x,
                                              const double (&table)[Terms][16]) {
  return side_by_side<Terms>(x, [&](int term) { return looked_up(which, table[term]); });
}
// x / y, as far as 1 / y is normal. At most 0.6 ulp.
FUSER_DEVICE double_lanes wide_quotient(double_lanes x, double_lanes y) {
  const double_lanes estimate = __builtin_ia32_rcp14pd512_mask(y, y, 0xff);
  const double_lanes error = fused(-y, estimate, all_wide(1));
  const double_lanes inverse = fused(estimate, fused(error, error, error), estimate);
  const double_lanes value = x * inverse;
  return fused(fused(-y, value, x), inverse, value);
}
// By the function of one number, where lanes are so that what there is for all of them fails.
template <class Function>
static __attribute__((noinline, cold)) double_lanes done_apart(double_lanes x, Function function) {
  alignas(64) double numbers[8];
  *reinterpret_cast<double_lanes_anywhere*>(numbers) = x;
#pragma omp simd
  for (int lane = 0; lane < 8; ++lane) numbers[lane] = function(numbers[lane]);
  return lanes_at(numbers);
}

template <int Count, class Function>
FUSER_DEVICE void in_lanes(double (&results)[Count], const double (&given)[Count],
                           Function function) {
  static_assert(Count % 8 == 0, "whole vectors");
#pragma GCC unroll 4
  for (int lane = 0; lane < Count; lane += 8) {
    *reinterpret_cast<double_lanes_anywhere*>(results + lane) = function(lanes_at(given + lane));
  }
}
#else
template <int Count, class Function>
FUSER_DEVICE void in_lanes(double (&results)[Count], const double (&given)[Count],
                           Function function) {
#pragma omp simd
  for (int lane = 0; lane < Count; ++lane) results[lane] = function(given[lane]);
}
#endif

//@ sqrt_lanes(double): sqrt(double), wide_lanes
// Exact to rounding, from an estimate of 14 bits of 1 / sqrt(x). Estimates and what they are
// multiplied with stay normal from 2^-900 on; for 0, the estimate is 0 too.
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE double_lanes sqrt(double_lanes x) {
  const int64_lanes least = int64_lanes(all_wide(0x1p-900));
  const int64_lanes range = int64_lanes(all_wide(__builtin_inf())) - least;
  const wide_set normal = __builtin_ia32_ucmpq512_mask(int64_lanes(x) - least, range, 1, 0xff);
  const wide_set zero = __builtin_ia32_cmppd512_mask(x, double_lanes{}, 0, 0xff, 4);
  if (__builtin_expect((normal | zero) != 0xff, 0)) {
    return done_apart(x, [](double number) { return sqrt(number); });
  }
  const double_lanes estimate = __builtin_ia32_rsqrt14pd512_mask(x, double_lanes{}, normal);
  double_lanes root = x * estimate, half_inverse = 0.5 * estimate;
#pragma GCC unroll 2
  for (int step = 0; step < 2; ++step) {
    const double_lanes error = fused(-root, half_inverse, all_wide(0.5));
    root = fused(root, error, root);
    half_inverse = fused(half_inverse, error, half_inverse);
  }
  return fused(fused(-root, root, x), half_inverse, root);
}
#endif

//@ turned_wide_lanes: angle_parts, wide_lanes
// The sine and the cosine of what 0 <= x < 2^21 has beyond n pi/2; what is counted is n + `turn`.
// pi/2 is in three parts: n times the first two is exact wherever that leaves little of x.
#if defined(FUSER_LANE_VECTORS)
struct turned_wide_lanes {
  angle_parts<double_lanes> of;
  int64_lanes n;
};
FUSER_DEVICE turned_wide_lanes turned(double_lanes x, double turn) {
  const double_lanes shifter = all_wide(6755399441055744.0 + turn);  // 1.5 2^52 + turn
  const double_lanes shifted = fused(x, all_wide(0.6366197723675814), shifter);
  const double_lanes whole = shifter - shifted;
  const double_lanes first = fused(whole, all_wide(1.5707963267948966), x);
  const double_lanes middle = all_wide(6.12323399667708e-17);
  const double_lanes r = fused(whole, middle, first);
  const double_lanes lost = fused(whole, middle, first - r);
  const double_lanes low = fused(whole, all_wide(-9.403137205957857e-27), lost);
  return {angle_parts_of(r, low), int64_lanes(shifted)};
}

// sin(x + turn pi/2)
FUSER_DEVICE double_lanes sine_of(double_lanes x, double turn) {
  const turned_wide_lanes made = turned(x, turn);
  const double_lanes value = made.n & 1 ? made.of.cosine : made.of.sine;
  return double_lanes(int64_lanes(value) ^ ((made.n & 2) << 62));
}

// An even or odd function: `all` of |x|, and `one` where that is too large, or not finite.
template <class One, class All>
FUSER_DEVICE double_lanes turned_where_small(double_lanes x, int64_lanes sign, One one, All all) {
  const double_lanes a = double_lanes(int64_lanes(x) & 0x7fffffffffffffff);
  const wide_set small = __builtin_ia32_cmppd512_mask(a, all_wide(2097152.0), 1, 0xff, 4);
  if (__builtin_expect(small != 0xff, 0)) return done_apart(x, one);
  return double_lanes(int64_lanes(all(a)) ^ sign);
}
#endif

//@ sin_lanes(double): sin(double), turned_wide_lanes
// At most 0.9 ulp.
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE double_lanes sin(double_lanes x) {
  return turned_where_small(
      x, sign_of(x), [](double number) { return sin(number); },
      [](double_lanes a) { return sine_of(a, 0); });
}
#endif

//@ cos_lanes(double): cos(double), turned_wide_lanes
// At most 0.9 ulp.
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE double_lanes cos(double_lanes x) {
  return turned_where_small(
      x, int64_lanes{}, [](double number) { return cos(number); },
      [](double_lanes a) { return sine_of(a, 1); });
}
#endif

//@ tan_lanes(double): tan(double), turned_wide_lanes
// At most 2.6 ulp.
#if defined(FUSER_LANE_VECTORS)
FUSER_DEVICE double_lanes tan_of_size(double_lanes a) {
  const turned_wide_lanes made = turned(a, 0);
  const double_lanes sine = made.of.sine, cosine = made.of.cosine;
  return wide_quotient(made.n & 1 ? -cosine : sine, made.n & 1 ? sine : cosine);
}
FUSER_DEVICE double_lanes tan(double_lanes x) {
  return turned_where_small(
      x, sign_of(x), [](double number) { return tan(number); },
      [](double_lanes a) { return tan_of_size(a); });
}
#endif

//@ exp_lanes(double): exp(double), wide_lanes
// At most 1.3 ulp. As that of float32: 2^n 2^(k/16) e^r for |r| <= ln2 / 32, with
// (e^r - 1 - r) / r^2 to 2.8e-17 of e^r.
#if defined(FUSER_LANE_VECTORS)
alignas(64) constexpr double wide_powers_of_2[16] = {
    1.0, 1.0442737824274138, 1.0905077326652577, 1.1387886347566916, 1.189207115002721,
    1.241857812073484, 1.2968395546510096, 1.3542555469368927, 1.4142135623730951,
    1.4768261459394993, 1.5422108254079407, 1.6104903319492543, 1.681792830507429,
    1.7562521603732995, 1.8340080864093424, 1.9152065613971474};
FUSER_DEVICE double_lanes exp(double_lanes x) {
  x = __builtin_ia32_minpd512_mask(all_wide(710.0), x, x, 0xff, 4);  // this keeps NaN in x
  const double_lanes shifter = all_wide(422212465065984.0);  // 1.5 2^48: the sum counts sixteenths
  const double_lanes shifted = fused(x, all_wide(1.4426950408889634), shifter);
  const double_lanes n = shifted - shifter;
  double_lanes r = fused(n, all_wide(-0.6931471805599453), x);
  r = fused(n, all_wide(-2.3190468138462996e-17), r);
  const double_lanes curve = fused_polynomial(r, {0.5, 0.1666666666530169, 0.04166666666496045,
                                              0.008333449701253456, 0.0013889034348599464});
  const double_lanes power = looked_up(int64_lanes(shifted), wide_powers_of_2);
  const double_lanes value = fused(power, fused(r * r, curve, r), power);
  const wide_set done = __builtin_ia32_cmppd512_mask(x, all_wide(-746.0), 21, 0xff, 4);
  return __builtin_ia32_scalefpd512_mask(value, n, double_lanes{}, done, 4);
}
#endif

//@ wide_log_near: wide_lanes
// A logarithm, as that of float32 but for two parts of that of 2, and of those of the centres: the
// first are multiples of 2^-42, so that their sum is exact. `inverse_wide_centres` are chosen so
// that the second of natural logarithms is below 2^-60. log(1 + r) is fitted to 1.1e-18.
#if defined(FUSER_LANE_VECTORS)
alignas(64) constexpr double inverse_wide_centres[16] = {
    1.0, 0.9142868467745991, 0.8648660585694538, 0.820511698723552, 0.7804887745444474,
    0.7441870861282216, 0.7111103322774498, 0.6808501228379832, 1.3061206827369434,
    1.2549002170574994, 1.207545568359253, 1.1636379458699595, 1.122808540077546,
    1.0847443190681287, 1.0491788954040095, 1.0};
FUSER_DEVICE double_lanes exponent_of(double_lanes x) {
  return __builtin_ia32_getexppd512_mask(x, x, 0xff, 4);
}
// The logarithms of the centres are `of_centres` and `rest_of_centres`, that of 2 is `of_2` and
// `rest_of_2`, and that of e is `of_e`.
template <class... Rest>
FUSER_DEVICE double_lanes log_near(double_lanes x, double of_2, double rest_of_2,
                                   const double (&of_centres)[16], double of_e,
                                   const Rest (&...rest_of_centres)[16]) {
  const double_lanes m = __builtin_ia32_getmantpd512_mask(x, 11, x, 0xff, 4);  // NaN below 0
  const double_lanes n = exponent_of(x) - exponent_of(m);  // infinite for 0 and infinity
  const int64_lanes which = int64_lanes(m) >> 48;
  const double_lanes r = fused(m, looked_up(which, inverse_wide_centres), all_wide(-1));
  const double_lanes curve = fused_polynomial(
      r, {-0.5, 0.33333333333333354, -0.25000000000020084, 0.20000000000009904,
          -0.1666666658694758, 0.1428571339406243, -0.12500100722924504, 0.11113126220644823,
          -0.09967721900499214, 0.07958705510492194});
  const double_lanes whole = fused(n, all_wide(of_2), looked_up(which, of_centres));
  double_lanes low = r * r * curve;
  if (rest_of_2 != 0) low = fused(n, all_wide(rest_of_2 / of_e), low);
  double_lanes part = r + low;
  ((part = fused(part, all_wide(of_e), looked_up(which, rest_of_centres))), ...);
  return whole + part;
}
#endif

//@ log_lanes(double): log(double), wide_log_near
// At most 1.1 ulp.
#if defined(FUSER_LANE_VECTORS)
alignas(64) constexpr double log_of_wide_centres[16] = {
    0.0, 0.08961092003073645, 0.1451806296245195, 0.19782711051152546, 0.24783492152027975,
    0.2954628159100139, 0.3409276822060292, 0.3844130809929993, -0.2670614329686032,
    -0.22705606110207555, -0.18858984360417708, -0.15155125785827295, -0.11583317153076678,
    -0.081344308593998, -0.04800785386737516, 0.0};
FUSER_DEVICE double_lanes log(double_lanes x) {
  return log_near(x, 0.6931471805598903, 5.497923018708371e-14, log_of_wide_centres, 1.0);
}
#endif

//@ log2_lanes(double): log2(double), wide_log_near
// At most 1.5 ulp; of powers of 2, exact.
#if defined(FUSER_LANE_VECTORS)
alignas(64) constexpr double log2_of_wide_centres[16] = {
    0.0, 0.12928122993776014, 0.20945137439252903, 0.28540419128830763, 0.3575502122364469,
    0.4262627392804461, 0.4918546764204166, 0.554590845601524, -0.38528820495639593,
    -0.32757265335567354, -0.2720776321298217, -0.21864224815271882, -0.167111942137808,
    -0.11735503061299823, -0.069260692698208, 0.0};
alignas(64) constexpr double rest_of_wide_log2[16] = {
    0.0, 8.081045644284669e-14, -9.742479461829129e-14, 6.308183246793924e-14,
    -3.3865609263587175e-14, 1.9640155303970942e-14, -9.757262781111445e-15, -7.650621535058447e-14,
    -1.0820235885140098e-13, -7.231540149031893e-14, 5.0261338591743767e-14, 1.0389257045664822e-13,
    -6.988672593756833e-14, -1.0415576510603091e-13, 2.38161695848717e-14, 0.0};
FUSER_DEVICE double_lanes log2(double_lanes x) {
  return log_near(x, 1.0, 0.0, log2_of_wide_centres, 1.4426950408889634, rest_of_wide_log2);
}
#endif

//@ log10_lanes(double): log10(double), wide_log_near
// At most 1.7 ulp.
#if defined(FUSER_LANE_VECTORS)
alignas(64) constexpr double log10_of_wide_centres[16] = {
    0.0, 0.03891752808772253, 0.06305114632527875, 0.08591522246592831, 0.10763333883915038,
    0.12831787055733912, 0.14806301111025277, 0.16694847984672379, -0.11598330666743095,
    -0.09860919441939586, -0.08190352842029824, -0.06581787501340841, -0.050305707217148665,
    -0.03532738435660576, -0.020849546022645882, 0.0};
alignas(64) constexpr double rest_of_wide_log10[16] = {
    0.0, -1.0011182118781974e-13, -1.1016184071391005e-13, 9.198553102906208e-14,
    3.258748469593485e-14, -2.3767652812353233e-14, -1.0883350830921231e-13,
    -3.6366017800116156e-14, -8.584908843494477e-15, 7.687325479253498e-14, 6.870157113260179e-15,
    6.363876062246918e-14, -1.6191570886996457e-14, -2.830838888413197e-15, 2.716165699682092e-14,
    0.0};
FUSER_DEVICE double_lanes log10(double_lanes x) {
  return log_near(x, 0.30102999566383914, 1.42050232272661e-13, log10_of_wide_centres,
                  0.4342944819032518, rest_of_wide_log10);
}
#endif

//@ erf_lanes(double): erf(double), wide_lanes
// At most 2.4 ulp. Polynomials for |x| near 0, 25/64, 50/64, ... 375/64, fitted to 1.6e-17.
#if defined(FUSER_LANE_VECTORS)
alignas(64) constexpr double erf_near_centres[13][16] = {
    {0.0, 0.41934428209280167, 0.7307772924108472, 0.9025374279448654, 0.9728746138209335,
     0.994257542299925, 0.999082135181434, 0.9998898131503006, 0.9999901032653747,
     0.9999993368112867, 0.9999999669144919, 0.9999999987731819, 0.999999999966232,
     0.9999999999993108, 0.9999999999999896, 0.9999999999999999},
    {1.1283791670955126, 0.9686948267296279, 0.6128902939630443, 0.28578692080421586,
     0.09821228080128243, 0.024874427084297598, 0.004643059175781649, 0.0006387327625779686,
     6.475868323471688e-05, 4.83883338237473e-06, 2.664692925680281e-07, 1.0814775586081891e-08,
     3.2348317505265577e-10, 7.130988308978132e-12, 1.158541495860869e-13, 1.3871943283257997e-15},
    {5.919593929612337e-17, -0.3783964166912604, -0.47882054215862807, -0.3349065478174411,
     -0.15345668875200377, -0.048582865399018425, -0.010882169943238313, -0.0017465348976742011,
     -0.00020237088510847631, -1.7011523609902324e-05, -1.0408956740941215e-06,
     -4.6469738847048334e-08, -1.5163273831793727e-09, -3.621205001826886e-11,
     -6.335773812283959e-13, -8.128091792553972e-15},
    {-0.37612638903185197, -0.22435754206348593, 0.04508893438613951, 0.16638343354802312,
     0.12711329051628845, 0.05496746362674071, 0.015455704144398386, 0.00297087665304665,
     0.0004000197828948949, 3.825781399788758e-05, 2.6218427204504614e-06, 1.2951151431846672e-07,
     4.630695367896313e-09, 1.2021588344253383e-10, 2.2712995879437654e-12, 3.1287963989292746e-14},
    {1.3828238260203567e-12, 0.16995197133105036, 0.14199398239161912, 0.014145222844866913,
     -0.04815502863190516, -0.037484875231756885, -0.014484763313103726, -0.0034795671248406203,
     -0.0005575739490762016, -6.157955580111496e-05, -4.7738213385286486e-06,
     -2.627574808845896e-07, -1.0347749767282031e-08, -2.9316495436294307e-10,
     -5.999392130260014e-12, -8.895458503570548e-14},
    {0.11283791664117764, 0.04075226715983884, -0.0578997997158432, -0.056545603353809766,
     -0.008037094269461437, 0.012794819714459296, 0.008942754359420033, 0.0029145135425375623,
     0.000576961502075451, 7.511890657157468e-05, 6.672543021238454e-06, 4.1276094328101046e-07,
     1.8012817906881114e-08, 5.594261540426101e-10, 1.2442258976721481e-11, 1.9910017720501328e-13},
    {1.9957226465220763e-09, -0.05062681041350359, -0.022786989140153573, 0.018316066845086396,
     0.017027327581411164, 0.0016660059903803384, -0.0031239232989107592, -0.0017285730919414737,
     -0.00045231517734740944, -7.160875339496917e-05, -7.415188064688181e-06,
     -5.211254256074767e-07, -2.538563311260146e-08, -8.687684660550189e-10,
     -2.108139003523274e-11, -3.6514727305486536e-13},
    {-0.02686620759912708, -0.004052612593747948, 0.018872039353899153, 0.007330634491949184,
     -0.005687890797717705, -0.003976078975461151, -3.731400930272601e-05, 0.0006565163225375287,
     0.0002664809969571188, 5.4042943128434896e-05, 6.687179179891433e-06, 5.415001425433224e-07,
     2.9710235884391923e-08, 1.1273287349359478e-09, 2.997915729300687e-11, 5.63957647011921e-13},
    {4.508899335813263e-07, 0.011244359859410974, 0.0011969826802261246, -0.00607251543298887,
     -0.0014268820993676946, 0.0015844427187313096, 0.0006912762737896514, -7.83817897241806e-05,
     -0.00011126366434408564, -3.2153969068456626e-05, -4.941477027062061e-06,
     -4.7001810446062396e-07, -2.937659903119548e-08, -1.2449867272384594e-09,
     -3.6468166626623854e-11, -7.478100047058447e-13},
    {0.005220302100251711, -0.00018782455359654765, -0.003876990517853901, 0.0001556657826239182,
     0.0016013865127455771, 8.554291822165342e-05, -0.00035279713135199023,
     -8.004517950541397e-05, 2.545303068471051e-05, 1.461360975550996e-05, 2.989176026572011e-06,
     3.434212089733913e-07, 2.480675261775786e-08, 1.1841793798459077e-09, 3.840537694515946e-11,
     8.611315181192914e-13},
    {1.983743520526239e-05, -0.0019840958169986445, 0.00039289708133754744, 0.0010429678986115009,
     -0.0002467017750675802, -0.0003150691298707927, 4.246147659857488e-05,
     5.7705223027485176e-05, 3.874593011467077e-06, -4.558289319496445e-06,
     -1.4569158719647287e-06, -2.1162692679750028e-07, -1.8043205566621185e-08,
     -9.82166975107997e-10, -3.556616935592597e-11, -8.777010952005243e-13},
    {-0.0009230129268602235, 0.00016661228807833675, 0.0005705940297474736,
     -0.00024104382385017612, -0.00019117397405591245, 9.561028453096394e-05,
     3.990649743611286e-05, -1.5232794573018766e-05, -6.415691682262822e-06, 4.87307000249971e-07,
     5.459309098278896e-07, 1.110059629857357e-07, 1.1672541692501829e-08, 7.455901626713845e-10,
     3.084840288309275e-11, 8.554435158281738e-13},
    {0.00013571867996308188, 0.0002850650924082644, -0.0001318193225596284,
     -0.0001089789943961724, 8.57901792904984e-05, 1.6243200535813937e-05,
     -2.1652840289632603e-05, -1.7493361376591926e-06, 2.7065264066462752e-06,
     3.957185113364282e-07, -1.3248138279927166e-07, -4.648082417427467e-08,
     -6.243830731247459e-09, -4.706035150577927e-10, -2.2136806145928918e-11,
     -6.827312427413316e-13},
};
FUSER_DEVICE double_lanes erf(double_lanes x) {
  const int64_lanes sign = sign_of(x);
  double_lanes a = double_lanes(int64_lanes(x) ^ sign);
  a = __builtin_ia32_minpd512_mask(all_wide(5.95), a, a, 0xff, 4);  // this keeps NaN
  const double_lanes shifter = all_wide(6755399441055744.0);  // 1.5 2^52: the sum's low bits are n
  const double_lanes shifted = fused(a, all_wide(2.56), shifter);
  const double_lanes r = fused(shifter - shifted, all_wide(0.390625), a);
  const double_lanes value = polynomial_by_table(int64_lanes(shifted), r, erf_near_centres);
  return double_lanes(int64_lanes(value) ^ sign);
}
#endif

//@ erfinv_lanes(double): erfinv(double), log_lanes(double)
// At most 2.1 ulp. x times a function of w = -log(1 - x^2), for which the four highest bits of
// w + 5/2 choose one of 16 polynomials, fitted to 7.2e-17 of it.
#if defined(FUSER_LANE_VECTORS)
alignas(64) constexpr double erfinv_ratios[14][16] = {
    {5.285699453489977, 0.886226925452758, 1.00482268397713, 1.1273743936892278,
     1.2520638405834421, 1.501409351110792, 1.742829922065944, 1.9711326474795248,
     2.1848671465719187, 2.571964908183527, 2.9153813526290087, 3.225890362837269,
     3.51109370831954, 4.0248613621818095, 4.4829680769847675, 4.900170974755446},
    {0.09298559357914227, 0.2320136665346545, 0.24176249324891644, 0.24783287028621093,
     0.25036244534245283, 0.246640276744167, 0.2353584092078791, 0.2210353453786175,
     0.20655904661817895, 0.18160115669382515, 0.16272189636868578, 0.14841154393033534,
     0.13721812593094035, 0.1207031282417558, 0.10894341530626576, 0.10003313111058472},
    {-0.0007909446489519611, 0.011549342038270712, 0.007914108355434322, 0.004250709244824736,
     0.000879764712662348, -0.0041773177243836345, -0.0067170665876730195, -0.007367536835470414,
     -0.007001828990392404, -0.005436366266931513, -0.004077624828406238, -0.003138556119326865,
     -0.002497244896771258, -0.0017123268178791558, -0.0012648481197933086, -0.0009823807884872546},
    {1.331667286824573e-05, -0.0023351016416080107, -0.002471859604025459, -0.002376369955578889,
     -0.0020923279303824973, -0.001252707907810659, -0.00048128346332418294,
     -3.4560721439187687e-06, 0.00021234349352608635, 0.0002617134229276147,
     0.00018900361169950006, 0.00012802268799558126, 8.878986546639655e-05, 4.778387628078161e-05,
     2.8968150402091322e-05, 1.9067850466336246e-05},
    {-2.786062784987943e-07, -0.0001280432942809753, -8.441967916810521e-06,
     0.00010012177623100154, 0.00017766931508226197, 0.00021825026434124095,
     0.00015856231502931498, 8.255169215897455e-05, 3.0156591118119247e-05,
     -6.993558937305777e-06, -9.07180988151155e-06, -6.133123125238156e-06,
     -3.849848279866846e-06, -1.650417394653611e-06, -8.229077037115205e-07,
     -4.595461739258145e-07},
    {6.502169832494422e-09, 4.661144050196003e-05, 4.727604709390016e-05, 3.820187248659957e-05,
     2.3288168356652537e-05, -4.996079575093569e-06, -1.5798453742033757e-05,
     -1.3342662593069721e-05, -7.64478289007553e-06, -1.0933771315986659e-06,
     2.4144003064953835e-07, 2.80537131920771e-07, 1.7745273506698965e-07, 6.324241471541177e-08,
     2.6041588624669206e-08, 1.234826223244643e-08},
    {-1.6210249313213422e-10, 2.0199885656769386e-06, -1.543422018875011e-06,
     -4.2755857074967545e-06, -5.372776139444045e-06, -3.416619734446633e-06,
     -3.82368020218028e-07, 8.951292858128913e-07, 8.828651733632309e-07, 2.5178036417583445e-07,
     2.714986599489061e-08, -7.961808094947398e-09, -7.685762461798922e-09,
     -2.5553892821349634e-09, -8.788905896925016e-10, -3.5430070429683537e-10},
    {4.223766764810132e-12, -1.012553932574532e-06, -9.561610282828162e-07,
     -5.652252837524363e-07, -6.506785669664012e-08, 4.787257562637358e-07, 3.216806419963297e-07,
     6.317163648893219e-08, -4.226037730124906e-08, -3.048234648843925e-08,
     -6.150495810449973e-09, -4.793362093233682e-10, 2.329821804217444e-10,
     1.0438729919652982e-10, 3.0894198456899625e-11, 1.0619924122418242e-11},
    {-1.13577425882806e-13, -3.729551107456064e-08, 6.294382742808226e-08, 1.2231742386970542e-07,
     1.1768511285443126e-07, 1.3415314580894044e-08, -3.686848780595099e-08,
     -2.3143285580316026e-08, -5.035436288280839e-09, 2.36166677622339e-09, 7.410294850640504e-10,
     1.1855974519084673e-10, 5.290543511766339e-12, -4.058751396896929e-12,
     -1.1109882823671911e-12, -3.2824301776030697e-13},
    {3.124315964872715e-15, 2.279304948136909e-08, 1.945637488597234e-08, 6.039170660159209e-09,
     -7.200800052929077e-09, -1.0858173906485688e-08, -7.110616418200328e-10,
     2.4747536552054702e-09, 1.3612918871811832e-09, -6.670540105609348e-11,
     -6.459788244359318e-11, -1.4011314424409214e-11, -1.8125393815734429e-12,
     1.3205377395390767e-13, 4.003400022475738e-14, 1.0360292681571146e-14},
    {-8.689065973699454e-17, 7.560940142056053e-10, -1.957817513663727e-09,
     -3.0217681491083343e-09, -2.0571661022027466e-09, 9.029172839252271e-10,
     7.529550897999751e-10, -8.796859219002e-12, -1.5046181713368084e-10, -1.2844326945505846e-11,
     3.979367208450609e-12, 1.2398630599984268e-12, 2.0091555838734736e-13,
     -2.1176439832848964e-15, -1.398544373890186e-15, -3.2966843343185035e-16},
    {2.3538940850379037e-18, -5.268446972157586e-10, -3.991152528369121e-10,
     1.238300549925034e-11, 3.3280139045130014e-10, 1.2424426343188319e-10,
     -9.309529977906654e-11, -3.715175101291553e-11, 7.698746044811004e-12,
     2.5073065380917934e-12, -1.2162908112528865e-13, -8.629889244997683e-14,
     -1.5061816460115662e-14, -1.255844600322251e-16, 4.452787230271908e-17, 1.02092578212809e-17},
    {-5.502590687490051e-20, -1.4017590923198979e-11, 6.479791549212011e-11, 7.24957215202107e-11,
     7.540940698827049e-12, -3.4563435330015874e-11, 2.0016712101755366e-12,
     5.7475585750151605e-12, 1.490225888400161e-13, -2.315656948565258e-13,
     -4.791743244691107e-15, 4.431631555077886e-15, 7.465330676972897e-16, 1.2086139303576461e-17,
     -1.1379328276464552e-18, -2.749191385749463e-19},
    {7.884792396250605e-22, 1.1538887854113675e-11, 1.8091245326738166e-12,
     -7.291426331908601e-12, -4.314595238853635e-12, 2.6526673062202745e-12,
     4.778307346856003e-13, -3.6447081581764536e-13, -3.343272355980874e-14,
     1.012918521727132e-14, 5.493009106501134e-16, -1.2874347799912979e-16,
     -1.8506386792933304e-17, -3.711958690732424e-19, 1.7043683172065676e-20,
     4.618773720013841e-21},
};
FUSER_DEVICE double_lanes erfinv(double_lanes x) {
  const double_lanes a = double_lanes(int64_lanes(x) & 0x7fffffffffffffff);
  const double_lanes w = -log((1 - a) * (1 + a));
  const int64_lanes places = int64_lanes(w + 2.5) >> 50;
  const double_lanes r = w - (double_lanes(places << 50) - 2.5);
  const double_lanes value = x * polynomial_by_table(places, r, erfinv_ratios);
  const double_lanes ends = double_lanes(int64_lanes(all_wide(__builtin_inf())) | sign_of(x));
  return a == 1 ? ends : value;
}
#endif
