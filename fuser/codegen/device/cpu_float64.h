// Functions of float64 for the CPU target, in operations that compilers make vectors of.

// -- exponentials and logarithms of float64 -------------------------------------------------------

//@ power_of_2: FUSER_DEVICE, bits_of, double_of
// 2^n for whole n from -1022 to 1023: the low bits of the sum are the exponent.
FUSER_DEVICE double power_of_2(double n) {
  return double_of(bits_of(n + 6755399441056767.0) << 52);  // 1.5 2^52 + 1023
}

//@ nearest_whole: FUSER_DEVICE
// For |x| < 2^51.
FUSER_DEVICE double nearest_whole(double x) {
  const double shifter = 6755399441055744.0;  // 1.5 2^52: the sum has no bits below 1
  return (x + shifter) - shifter;
}

//@ exp_rest: FUSER_DEVICE, polynomial
// e^r - 1 for |r| <= ln(2)/2, fitted to 4.1e-17 of it.
FUSER_DEVICE double exp_rest(double r) {
  const double curve = polynomial(
      r, 0.5000000000000001, 0.16666666666666669, 0.041666666666623824, 0.008333333333330039,
      0.0013888888917367081, 0.00019841269863171557, 2.4801521057868204e-05,
      2.7557268276905696e-06, 2.7620201591031547e-07, 2.5100472505694996e-08);
  return r + r * r * curve;
}

//@ exp_parts(double): FUSER_DEVICE, exp_rest, nearest_whole
// e^x = (1 + rest) 2^n, by Cody and Waite.
struct wide_exp_parts {
  double rest, n;
};
FUSER_DEVICE wide_exp_parts exp_parts_of(double x) {
  const double n = nearest_whole(x * 1.4426950408889634);
  return {exp_rest((x - n * 0.6931471803691238) - n * 1.9082149292705877e-10), n};
}

//@ scaled_up: FUSER_DEVICE, nearest_whole, power_of_2
// (1 + rest) 2^n for n from -2046 to 1100, in two steps, so that subnormal results are rounded once.
// Of -2046, both powers are 0: see exp_times.
FUSER_DEVICE double scaled_up(double rest, double n) {
  const double half_n = nearest_whole(n * 0.5);
  return (1 + rest) * power_of_2(half_n) * power_of_2(n - half_n);
}

//@ exp(double): FUSER_DEVICE, exp_parts(double), scaled_up
// At most 1.15 ulp.
FUSER_DEVICE double exp(double x) {
  x = x < -1418.2 ? -1418.2 : x;
  x = x > 710.0 ? 710.0 : x;
  const wide_exp_parts parts = exp_parts_of(x);
  return scaled_up(parts.rest, parts.n);
}

//@ exp2(double): FUSER_DEVICE, exp_rest, nearest_whole, scaled_up
// At most 1.2 ulp.
FUSER_DEVICE double exp2(double x) {
  x = x < -2046.0 ? -2046.0 : x;
  x = x > 1025.0 ? 1025.0 : x;
  const double n = nearest_whole(x);
  return scaled_up(exp_rest((x - n) * 0.6931471805599453), n);
}

//@ expm1(double): FUSER_DEVICE, exp_parts(double), power_of_2
// At most 2.5 ulp. 2^n (e^r - 1) + (2^n - 1), at half scale so that 2^1024 does not occur.
FUSER_DEVICE double expm1(double x) {
  double y = x < -50.0 ? -50.0 : x;
  y = y > 710.0 ? 710.0 : y;
  const wide_exp_parts parts = exp_parts_of(y);
  const double scale = power_of_2(parts.n - 1);
  const double value = 2 * (scale * parts.rest + (scale - 0.5));
  return x == 0 ? x : value;
}

//@ tanh(double): FUSER_DEVICE, expm1(double)
// At most 2.7 ulp.
FUSER_DEVICE double tanh(double x) {
  double a = __builtin_fabs(x);
  a = a > 20.0 ? 20.0 : a;
  const double t = expm1(2 * a);
  return __builtin_copysign(t / (t + 2), x);
}

//@ sinh(double): FUSER_DEVICE, exp(double), expm1(double)
// At most 3.1 ulp. Of large x, the square of e^(x/2), which is finite for longer than e^x.
FUSER_DEVICE double sinh(double x) {
  const double a = __builtin_fabs(x), root = exp(0.5 * a), t = expm1(a > 30.0 ? 30.0 : a);
  const double small = 0.5 * (t + t / (t + 1));
  return __builtin_copysign(a > 30.0 ? 0.5 * root * root : small, x);
}

//@ cosh(double): FUSER_DEVICE, exp(double)
// At most 3.6 ulp. As sinh, with a square of any x.
FUSER_DEVICE double cosh(double x) {
  const double root = exp(0.5 * __builtin_fabs(x)), half = 0.5 * root * root;
  return half + 0.25 / half;
}

//@ log_parts: FUSER_DEVICE, bits_of, double_of
// x = (1 + r) 2^n with 1 + r in [sqrt(1/2), sqrt(2)), for positive finite x.
struct log_parts {
  double r, n;
};
FUSER_DEVICE log_parts log_parts_of(double x) {
  const bool subnormal = x < 2.2250738585072014e-308;
  const int64 root = 0x3fe6a09e667f3bcd;  // of 1/2
  const int64 bits = bits_of(subnormal ? x * 18014398509481984.0 : x) - root;
  const double shifter = 6755399441055744.0;  // the low bits of a sum with it are a whole number
  const double n = double_of((bits >> 52) + bits_of(shifter)) - shifter;
  return {double_of((bits & 0xfffffffffffff) + root) - 1, n - (subnormal ? 54 : 0)};
}

//@ log_of_parts: FUSER_DEVICE, polynomial
// log(1 + r) + n ln2. With s = r / (2 + r), log(1 + r) is 2 s and an odd polynomial of s, fitted to
// 4.7e-18; r - r^2 / 2 of it is exact where the rest is small.
FUSER_DEVICE double log_of_parts(double r, double n) {
  const double half_square = 0.5 * r * r, s = r / (2 + r), z = s * s;
  const double curve = z * polynomial(z, 0.666666666666667, 0.3999999999989889,
                                      0.28571428626253836, 0.22222211089379496,
                                      0.1818289243253687, 0.15331611722055008,
                                      0.14617807153417325);
  const double low = s * (half_square + curve) + n * 1.9082149292705877e-10;
  return n * 0.6931471803691238 - ((half_square - low) - r);
}

//@ log(double): FUSER_DEVICE, log_parts, log_of_parts, log_or_limit
// At most 0.9 ulp.
FUSER_DEVICE double log(double x) {
  const log_parts parts = log_parts_of(x);
  return log_or_limit(x, log_of_parts(parts.r, parts.n));
}

//@ log2(double): FUSER_DEVICE, log_parts, log_of_parts, log_or_limit
// At most 1.85 ulp; of powers of 2, exact.
FUSER_DEVICE double log2(double x) {
  const log_parts parts = log_parts_of(x);
  return log_or_limit(x, parts.n + log_of_parts(parts.r, 0) * 1.4426950408889634);
}

//@ log10(double): FUSER_DEVICE, log_parts, log_of_parts, log_or_limit
// At most 1.95 ulp. log10(2) is in two parts, the first of which n multiplies exactly.
FUSER_DEVICE double log10(double x) {
  const log_parts parts = log_parts_of(x);
  const double rest = log_of_parts(parts.r, 0) * 0.4342944819032518;
  const double low = parts.n * 1.1451100898021838e-10 + rest;
  return log_or_limit(x, parts.n * 0.3010299955494702 + low);
}

//@ log1p(double): FUSER_DEVICE, log_parts, log_of_parts, log_or_limit, power_of_2
// At most 1.4 ulp. log(u) with u = 1 + x, where what the sum lost is added to u's mantissa.
FUSER_DEVICE double log1p(double x) {
  const double u = 1 + x, kept = u - 1;
  const double lost = (1 - (u - kept)) + (x - kept);
  const log_parts parts = log_parts_of(u);
  const double down = parts.n < 100 ? parts.n : 100.0;
  const double r = parts.r + lost * power_of_2(-down);
  return x == 0 ? x : log_or_limit(u, log_of_parts(r, parts.n));
}

//@ asinh(double): FUSER_DEVICE, log1p(double)
// At most 1.9 ulp.
FUSER_DEVICE double asinh(double x) {
  const double a = __builtin_fabs(x), square = a * a;
  const bool large = a > 72057594037927936.0;  // 2^56
  const double sum = log1p(large ? a : a + square / (1 + __builtin_sqrt(1 + square)));
  return __builtin_copysign(large ? sum + 0.6931471805599453 : sum, x);
}

//@ acosh(double): FUSER_DEVICE, log1p(double)
// At most 2.8 ulp.
FUSER_DEVICE double acosh(double x) {
  const double t = x - 1;
  const bool large = x > 72057594037927936.0;  // 2^56
  const double sum = log1p(large ? x : t + __builtin_sqrt(t * (t + 2)));
  return x < 1 ? __builtin_nan("") : large ? sum + 0.6931471805599453 : sum;
}

//@ atanh(double): FUSER_DEVICE, log1p(double)
// At most 2.1 ulp.
FUSER_DEVICE double atanh(double x) {
  const double a = __builtin_fabs(x);
  return __builtin_copysign(0.5 * log1p(2 * a / (1 - a)), x);
}

// -- error functions of float64 -------------------------------------------------------------------

//@ erf_near: FUSER_DEVICE, polynomial
// erf(x) for |x| <= 1/2; error of the fit 2.2e-17 of it.
FUSER_DEVICE double erf_near(double x) {
  const double t = x * x;
  return x + x * polynomial(t, 0.12837916709551256, -0.37612638903183476, 0.11283791670925353,
                            -0.026866170632887928, 0.00522397737302147, -0.0008548297753674966,
                            0.00012053335124353741, -1.4845849259707869e-05,
                            1.4725865480556744e-06);
}

//@ erfc_far: FUSER_DEVICE, polynomial, bits_of, double_of, nearest_whole, exp_rest, scaled_up
// erfc(x) for x >= 1/2: e^(-x^2) / (x + 2) and a polynomial of (x - 2) / (x + 2), good to 3.1e-17.
// The square has two parts, the first of which, of x without its last 27 bits, is exact.
FUSER_DEVICE double erfc_far(double x) {
  x = x > 28.0 ? 28.0 : x;
  const double short_x = double_of(bits_of(x) & -0x8000000), square = -short_x * short_x;
  const double n = nearest_whole(square * 1.4426950408889634);
  const double rest = (short_x - x) * (short_x + x) - n * 1.9082149292705877e-10;
  const double power = scaled_up(exp_rest((square - n * 0.6931471803691238) + rest), n);
  const double u = (x - 2) / (x + 2);
  const double curve = polynomial(
      u, 1.021582705242023, -0.6871606844138105, 0.2794720925560581, -0.036442231506898015,
      -0.021510661889768502, 0.006479185068795213, 0.003090612068229312, -0.0008372960904458549,
      -0.00066307364861708, 3.437185389022466e-05, 0.00014447200214788694, 3.414508506098984e-05,
      -2.1702386210586833e-05, -1.6098957842223747e-05, -1.1103814177022056e-06,
      3.5638953813973393e-06, 1.997730318370156e-06, 1.7897241117738162e-07,
      -6.441994231782204e-07, -5.391455293315642e-07, 1.6887787780850588e-07,
      2.133006733638475e-07, -8.048393836758138e-08);
  return power * (curve / (x + 2));
}

//@ erf(double): FUSER_DEVICE, erf_near, erfc_far
// At most 2.6 ulp.
FUSER_DEVICE double erf(double x) {
  const double a = __builtin_fabs(x);
  const double far = __builtin_copysign(1 - erfc_far(a), x);
  return a < 0.5 ? erf_near(x) : far;
}

//@ erfc(double): FUSER_DEVICE, erf_near, erfc_far
// At most 4.4 ulp.
FUSER_DEVICE double erfc(double x) {
  const double far = erfc_far(__builtin_fabs(x));
  const double beyond = x < 0 ? 2 - far : far;
  return __builtin_fabs(x) < 0.5 ? 1 - erf_near(x) : beyond;
}

//@ halley_step: FUSER_DEVICE, exp(double)
// What is nearer to where erfc is x, given how much it is more than x at z. The power is taken
// twice: its square may overflow.
FUSER_DEVICE double halley_step(double z, double error) {
  const double root = exp(0.5 * z * z);
  const double newton = -0.88622692545275801 * (error * root) * root;
  return z - newton / (1.0 + z * newton);
}

//@ erfinv_near: FUSER_DEVICE, erf_near, halley_step, polynomial
// A step to where erf is 0 <= x <= 1/2, from an estimate good to 2.4e-7.
FUSER_DEVICE double erfinv_near(double x) {
  const double z = x * polynomial(x * x, 0.8862270998645442, 0.231978930921472, 0.12864318839178632,
                                  0.07496427246329342, 0.11237953235109617);
  return halley_step(z, x - erf_near(z));
}

//@ erfcinv_far: FUSER_DEVICE, erfc(double), halley_step, log(double), polynomial
// Two steps to where erfc is 0 <= x <= 1/2, from an estimate good to 6.2e-5.
FUSER_DEVICE double erfcinv_far(double x) {
  const double root = __builtin_sqrt(-log(x * (2.0 - x))), u = (root - 3) / (root + 3);
  double z = root * polynomial(u, 0.9442384, 0.1171857, -0.03103187, -0.1410646, 0.1364223,
                               0.1681635, -0.2540002, -0.1074897, 0.1794041);
  z = halley_step(z, erfc(z) - x);
  z = halley_step(z, erfc(z) - x);
  return x == 0.0 ? __builtin_inf() : z;
}

//@ erfinv(double): FUSER_DEVICE, erfcinv_far, erfinv_near
// At most 2.9 ulp.
FUSER_DEVICE double erfinv(double x) {
  const double a = __builtin_fabs(x);
  const double near = erfinv_near(a > 0.5 ? 0.5 : a), far = erfcinv_far(a > 0.5 ? 1.0 - a : 0.5);
  return __builtin_copysign(a > 0.5 ? far : near, x);
}

//@ erfcinv(double): FUSER_DEVICE, erfcinv_far, erfinv_near
// At most 3.1 ulp, but where x is so small that erfc has few digits.
FUSER_DEVICE double erfcinv(double x) {
  const double rest = 1.0 - x, a = __builtin_fabs(rest), least = x < 1.0 ? x : 2.0 - x;
  const double near = erfinv_near(a > 0.5 ? 0.5 : a), far = erfcinv_far(a > 0.5 ? least : 0.5);
  return __builtin_copysign(a > 0.5 ? far : near, rest);
}

// -- trigonometry of float64 ----------------------------------------------------------------------

//@ two_parts: FUSER_DEVICE
// Sums and products with what rounding took from them. A product that is added to must not become
// one operation with the sum.
struct two_parts {
  double high, low;
};
FUSER_DEVICE two_parts sum_in_two(double x, double y) {
  const double sum = x + y, of_y = sum - x;
  return {sum, (x - (sum - of_y)) + (y - of_y)};
}
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__FP_FAST_FMA)
FUSER_DEVICE two_parts product_in_two(double x, double y) {
  const double product = __builtin_fma(x, y, 0.0);
  return {product, __builtin_fma(x, y, -product)};
}
#else
FUSER_DEVICE double upper_half(double x) {
  const double most = 134217729.0 * x;  // 2^27 + 1
  return most - (most - x);
}
FUSER_DEVICE two_parts product_in_two(double x, double y) {
  const double product = x * y, upper_x = upper_half(x), upper_y = upper_half(y);
  const double lower_x = x - upper_x, lower_y = y - upper_y, most = upper_x * upper_y - product;
  return {product, ((most + upper_x * lower_y) + lower_x * upper_y) + lower_x * lower_y};
}
#endif

//@ modulo_4: FUSER_DEVICE, nearest_whole
// What |x| < 2^87 is beyond a multiple of 4, at most 2. Where no instruction rounds large numbers,
// a multiple of 2^36 is taken off before.
FUSER_DEVICE double modulo_4(double x) {
#if defined(__SSE4_1__) || defined(__aarch64__)
  return x - 4 * __builtin_rint(0.25 * x);
#else
  const double shifter = 0x1.8p88, rest = x - ((x + shifter) - shifter);
  return rest - 4 * nearest_whole(0.25 * rest);
#endif
}

//@ quarter_turns(double): FUSER_DEVICE, bits_of, modulo_4, two_parts
// x = (n + high + low) pi/2 with |high| <= 1/2 and n known modulo 4, for every finite x >= 0.
//
// As for float32: of 2/pi, the bits whose products with x are multiples of 4 drop out. What is left
// is in four doubles, for x below 2^33 and for each further 32 exponents; from 2^513 on they are
// 2^512 times as large, and x as much smaller. Products and sums are in two parts each, so that
// what is left of them near 0 is as exact.
struct wide_turns {
  double high, low;
  int64 n;
};
FUSER_DEVICE wide_turns quarter_turns_of(double x) {
  static const double two_over_pi[32][4] = {
    {0x1.45f306dc9c883p-1, -0x1.6b01ec5417056p-55, -0x1.6447e493ad4cep-109, 0x1.e21c820ff28b2p-163},
    {0x1.45f306dc9c883p-1, -0x1.6b01ec5417056p-55, -0x1.6447e493ad4cep-109, 0x1.e21c820ff28b2p-163},
    {-0x1.9f246c6efab58p-14, -0x1.ec54170565912p-71, 0x1.b6c52b3278872p-129, 0x1.07f9458eaf7afp-186},
    {0x1.054a7f09d5f48p-46, -0x1.596447e493ad5p-101, 0x1.93c439041fe51p-156, 0x1.8eaf7aef1586ep-210},
    {0x1.d5f47d4d37703p-78, 0x1.b6295993c439p-132, 0x1.07f9458eaf7afp-186, -0x1.d4f246dc8e2dfp-243},
    {-0x1.6447e493ad4cep-109, 0x1.e21c820ff28b2p-163, -0x1.508510ea79237p-218, 0x1.b8e909374b802p-274},
    {0x1.4acc9e21c821p-143, -0x1.ae9c5421443aap-200, 0x1.b7246e3a424ddp-256, 0x1.700324977504fp-311},
    {0x1.c820ff28b1d5fp-175, -0x1.443a9e48db91cp-232, -0x1.6f6c8b47fe6dbp-286, -0x1.115f62e6de302p-340},
    {-0x1.d38a84288753dp-205, 0x1.b92371d2126e9p-259, 0x1.c00c925dd413ap-313, 0x1.921cfe1deb1cbp-368},
    {-0x1.0ea79236e4717p-238, 0x1.26e9700324977p-295, 0x1.413a32439fc3cp-349, -0x1.4e34ed658c117p-404},
    {0x1.1b8e909374b8p-270, 0x1.924bba8274648p-326, 0x1.cfe1deb1cb12ap-380, -0x1.63045df7282b4p-434},
    {0x1.ba5c00c925dd4p-301, 0x1.3a32439fc3bd6p-357, 0x1.cb129a73ee882p-412, 0x1.afa975da24275p-467},
    {0x1.25dd413a3243ap-333, -0x1.e214e34ed658cp-392, -0x1.177dca0ad144cp-448, 0x1.213a671c09ad1p-502},
    {-0x1.cdbc603c429c7p-365, 0x1.894d39f74411bp-419, -0x1.5a28976f62cc7p-477, -0x1.fb29741037d8dp-533},
    {-0x1.0a71a76b2c609p-399, 0x1.1046bea5d7689p-453, 0x1.3a671c09ad17ep-510, -0x1.bec66e29c67cbp-568},
    {0x1.34e7dd1046beap-429, 0x1.75da24274ce38p-483, 0x1.35a2fbf209cc9p-539, -0x1.4e33e566305b2p-595},
    {0x1.1afa975da2427p49, 0x1.338e04d68befdp-5, -0x1.f633714e33e56p-59, -0x1.8c16c6f740e88p-113},
    {-0x1.2edec598e3f65p18, -0x1.741037d8cdc54p-37, 0x1.cc1a99cfa4e42p-91, 0x1.7e2ef7e4a0ec8p-146},
    {-0x1.c7eca5d040df6p-15, -0x1.9b8a719f2b318p-70, -0x1.6c6f740e8840ep-125, 0x1.41d8ffc4bffefp-179},
    {-0x1.037d8cdc538dp-49, 0x1.a99cfa4e422fcp-103, 0x1.77bf250763ff1p-157, 0x1.7ffde05980fefp-212},
    {-0x1.c538cf9598c17p-77, 0x1.c845f8bbdf928p-132, 0x1.d8ffc4bffef03p-187, -0x1.9fc04343b9d29p-242},
    {-0x1.98c16c6f740e9p-109, 0x1.efc941d8ffc4cp-163, -0x1.0fd33f8086877p-227, -0x1.d297d64b824b2p-282},
    {0x1.17e2ef7e4a0ecp-142, 0x1.ff897ffde0598p-196, 0x1.fde5e2316b415p-253, -0x1.2e092c98130d8p-308},
    {-0x1.b5f13801da001p-174, 0x1.e05980fef2f12p-228, -0x1.d297d64b824b2p-282, -0x1.8130d834f648bp-336},
    {-0x1.da00087e99fcp-206, -0x1.0d0ee74a5f593p-260, 0x1.f6d367ecf27cbp-316, 0x1.36e9e8c7ecd3dp-373},
    {0x1.6603fbcbc462dp-238, 0x1.a0a6d1f6d367fp-292, -0x1.86c1a7b24585dp-347, 0x1.fb34f2ff516bbp-403},
    {0x1.e2316b414da3fp-269, -0x1.2c98130d834f6p-324, -0x1.22c2e70265868p-378, -0x1.5d28ad8453814p-436},
    {0x1.4da3eda6cfd9ep-301, 0x1.3e584dba7a32p-355, -0x1.32c3402ba515bp-409, -0x1.14e050683a131p-466},
    {-0x1.30261b069ec91p-333, -0x1.85ce04cb0d00bp-387, 0x1.6ba93dd63f5f3p-443, -0x1.d0985f18c10ebp-501},
    {0x1.6136e9e8c7ecdp-365, 0x1.e5fea2d7527bbp-420, -0x1.c0a0d0742617cp-475, -0x1.8c10eb5ada2b3p-529},
    {0x1.8fd9a797fa8b6p-398, -0x1.5b08a7028341dp-453, -0x1.30be31821d6b6p-510, 0x1.2ea6bfb5fb12p-564},
    {-0x1.5d28ad8453814p-436, -0x1.a0e84c2f8c608p-492, -0x1.d6b5b45650128p-546, -0x1.3b81ca8bdea7fp-602},
  };
  const int64 exponents = (bits_of(x) >> 57) - 32, place = exponents < 0 ? 0 : exponents;
  const double(&parts)[4] = two_over_pi[place];
  const double v = place < 16 ? x : x * 0x1p-512;
  const two_parts first = product_in_two(v, parts[0]), second = product_in_two(v, parts[1]);
  const two_parts third = product_in_two(v, parts[2]), middle = sum_in_two(first.low, second.high);
  const two_parts turns = sum_in_two(modulo_4(first.high), modulo_4(middle.high));
  const double shifter = 6755399441055744.0;  // the low bits of a sum with it are a whole number
  const double shifted = turns.high + shifter, n = shifted - shifter;
  const two_parts a = sum_in_two(middle.low, second.low), b = sum_in_two(a.high, third.high);
  const two_parts c = sum_in_two(b.high, turns.low), d = sum_in_two(turns.high - n, c.high);
  const double low = ((a.low + b.low) + (c.low + d.low)) + (third.low + v * parts[3]);
  const double high = d.high + low;
  return {high, low - (high - d.high), bits_of(shifted)};
}

//@ angle_parts: FUSER_DEVICE
// The sine and the cosine of r + low for |r| <= pi/4, where low is what rounding took from r; fits to
// 1.8e-17 and 9.1e-19. Of one number, or of many.
template <class T>
struct angle_parts {
  T sine, cosine;
};
template <class T>
FUSER_DEVICE angle_parts<T> angle_parts_of(T r, T low) {
  const T t = r * r, half = 0.5 * t, whole = 1 - half;
  const T odd = -0.16666666666666666 +
                t * (0.008333333333330948 +
                     t * (-0.00019841269836756774 +
                          t * (2.7557316101617874e-06 +
                               t * (-2.505113165023518e-08 + t * 1.5918115263265974e-10))));
  const T even = 0.041666666666666664 +
                 t * (-0.0013888888888887398 +
                      t * (2.480158729876456e-05 +
                           t * (-2.7557317271145144e-07 +
                                t * (2.087614614655861e-09 + t * -1.1382623647474604e-11))));
  const T cosine = whole + (((1 - whole) - half) + (t * (t * even) - r * low));
  return {r + (r * (t * odd) + low * whole), cosine};
}

//@ sine_and_cosine: angle_parts, quarter_turns(double), two_parts
// Of what x >= 0 has beyond n quarter turns.
struct sine_and_cosine {
  double sine, cosine;
  int64 n;
};
FUSER_DEVICE sine_and_cosine sine_and_cosine_of(double x) {
  const wide_turns turns = quarter_turns_of(x);
  const two_parts angle = product_in_two(turns.high, 1.5707963267948966);
  const double low =
      angle.low + (turns.high * 6.123233995736766e-17 + turns.low * 1.5707963267948966);
  const angle_parts<double> of = angle_parts_of(angle.high, low);
  return {of.sine, of.cosine, turns.n};
}

//@ sin(double): FUSER_DEVICE, sine_and_cosine
// At most 0.9 ulp.
FUSER_DEVICE double sin(double x) {
  const double a = __builtin_fabs(x);
  const sine_and_cosine of = sine_and_cosine_of(a);
  const double value = of.n & 1 ? of.cosine : of.sine;
  const double turned = __builtin_copysign(1.0, x) * (of.n & 2 ? -value : value);
  return a < 0x1p-27 ? x : turned;
}

//@ cos(double): FUSER_DEVICE, sine_and_cosine
// At most 0.9 ulp.
FUSER_DEVICE double cos(double x) {
  const sine_and_cosine of = sine_and_cosine_of(__builtin_fabs(x));
  const double value = of.n & 1 ? of.sine : of.cosine;
  return (of.n + 1) & 2 ? -value : value;
}

//@ tan(double): FUSER_DEVICE, sine_and_cosine
// At most 2.6 ulp.
FUSER_DEVICE double tan(double x) {
  const double a = __builtin_fabs(x);
  const sine_and_cosine of = sine_and_cosine_of(a);
  const bool odd = of.n & 1;
  const double value = (odd ? -of.cosine : of.sine) / (odd ? of.sine : of.cosine);
  return a < 0x1p-27 ? x : __builtin_copysign(1.0, x) * value;
}

//@ asin_tail(double): FUSER_DEVICE, polynomial
// (asin(x) - x) / x for t = x^2 <= 1/4; error 5.4e-18.
FUSER_DEVICE double asin_tail(double t) {
  return t * polynomial(t, 0.16666666666666669, 0.07499999999998433, 0.04464285714635543,
                        0.030381944138531247, 0.02237217294214989, 0.017352392720869973,
                        0.013971212973552933, 0.011479177415184906, 0.01032281435018578,
                        0.005457506718640358, 0.01740087944269402, -0.014851887071247204,
                        0.028757851367421566);
}

//@ asin(double): FUSER_DEVICE, asin_tail(double)
// pi/2 - 2 asin(sqrt((1 - x) / 2)) above 1/2.
// At most 2.1 ulp.
FUSER_DEVICE double asin(double x) {
  const double a = __builtin_fabs(x);
  const bool large = a > 0.5;
  const double t = large ? 0.5 * (1 - a) : a * a;
  const double s = large ? __builtin_sqrt(t) : a;
  const double tail = s * asin_tail(t);
  const double reflected = (1.5707963267948966 - 2 * s) - (2 * tail - 6.123233995736766e-17);
  return __builtin_copysign(large ? reflected : s + tail, x);
}

//@ acos(double): FUSER_DEVICE, asin_tail(double)
// At most 1.2 ulp.
FUSER_DEVICE double acos(double x) {
  const double a = __builtin_fabs(x);
  const bool large = a > 0.5;
  const double t = large ? 0.5 * (1 - a) : a * a;
  const double s = large ? __builtin_sqrt(t) : x;
  const double value = s + s * asin_tail(t);
  const double small = 1.5707963267948966 - (value - 6.123233995736766e-17);
  const double reflected = 3.141592653589793 - (2 * value - 1.2246467991473532e-16);
  return !large ? small : x < 0 ? reflected : 2 * value;
}

//@ atan_unit(double): FUSER_DEVICE, polynomial
// atan(z) for 0 <= z <= 1: above sqrt(2) - 1, pi/4 and atan((z - 1) / (z + 1)). Fitted to 7.3e-18.
FUSER_DEVICE double atan_unit(double z) {
  const bool large = z > 0.41421356237309503;
  const double turned = (z - 1) / (z + 1), s = large ? turned : z, t = s * s;
  const double tail = s * (t * polynomial(t, -0.3333333333333333, 0.19999999999995516,
                                          -0.14285714284665682, 0.11111111015187018,
                                          -0.0909090457530649, 0.07692183125376892,
                                          -0.06664510525508936, 0.05858140904866328,
                                          -0.050854078345894844, 0.03923044778479309,
                                          -0.019175404711104935));
  return large ? 0.7853981633974483 + (s + (tail + 3.061616997868383e-17)) : s + tail;
}

//@ atan(double): FUSER_DEVICE, atan_unit(double)
// At most 1.9 ulp.
FUSER_DEVICE double atan(double x) {
  const double a = __builtin_fabs(x);
  const bool large = a > 1;
  const double value = atan_unit(large ? 1 / a : a);
  const double reflected = 1.5707963267948966 - (value - 6.123233995736766e-17);
  return __builtin_copysign(large ? reflected : value, x);
}

//@ atan2(double): FUSER_DEVICE, atan_unit(double), bits_of
FUSER_DEVICE double atan2(double y, double x) {
  const double a = __builtin_fabs(x), b = __builtin_fabs(y);
  const bool steep = b > a;
  const double most = steep ? b : a, least = steep ? a : b;
  const double z = least == most ? 1.0 : least / most;
  const double value = atan_unit(most == 0 ? 0.0 : z);
  const double first = steep ? 1.5707963267948966 - (value - 6.123233995736766e-17) : value;
  const double back = 3.141592653589793 - (first - 1.2246467991473532e-16);
  const double upper = bits_of(x) < 0 ? back : first;
  return x != x || y != y ? x + y : __builtin_copysign(upper, y);
}
