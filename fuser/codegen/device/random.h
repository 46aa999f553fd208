// Random numbers by Philox4x32-10, the same text on every target. Number i of a sequence is made of
// one or two words of block i / count: `ir/random_numbers.py` says how, and is what they are tested
// against. Words are equal on every target. So are uniform numbers; normal ones are within 4 ulp.

//@ philox: FUSER_DEVICE
// Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). The key is
// the seed; the counter, an offset and the number of a block, each in two words, the lower one first.
struct philox_words {
  unsigned int x, y, z, w;
};
FUSER_DEVICE unsigned int upper_product(unsigned int x, unsigned int y) {
  return (unsigned int)((unsigned long long)x * y >> 32);
}
template <int rounds>
FUSER_DEVICE philox_words philox_rounds(philox_words c, unsigned int first, unsigned int second) {
  if constexpr (rounds == 0) {
    return c;
  } else {
    const unsigned int x = 0xD2511F53u, z = 0xCD9E8D57u;
    return philox_rounds<rounds - 1>({upper_product(z, c.z) ^ c.y ^ first, z * c.z,
                                      upper_product(x, c.x) ^ c.w ^ second, x * c.x},
                                     first + 0x9E3779B9u, second + 0xBB67AE85u);
  }
}
FUSER_DEVICE philox_words philox(long long seed, long long offset, unsigned long long block) {
  const philox_words counter = {(unsigned int)offset, (unsigned int)(offset >> 32),
                                (unsigned int)block, (unsigned int)(block >> 32)};
  return philox_rounds<10>(counter, (unsigned int)seed, (unsigned int)(seed >> 32));
}

//@ draw: FUSER_DEVICE, philox
// Number i of a sequence.
template <class Numbers>
FUSER_DEVICE typename Numbers::type draw(long long seed, long long offset, unsigned long long i) {
  constexpr int count = Numbers::count;
  return Numbers::of(philox(seed, offset, i / count), int(i % count));
}

//@ draw_vector: FUSER_DEVICE, philox
// N numbers from number i on, for one thread of a GPU; each `piece` are of one block, or of whole ones.
template <class Numbers, int piece, int N, typename T>
FUSER_DEVICE void draw_vector(T (&lanes)[N], long long seed, long long offset,
                              unsigned long long i) {
  constexpr int count = Numbers::count, together = piece < count ? piece : count;
#pragma unroll
  for (int lane = 0; lane < N; lane += together) {
    const philox_words words = philox(seed, offset, (i + lane) / count);
    const int first = together == count ? 0 : int((i + lane) % count);
#pragma unroll
    for (int k = 0; k < together; ++k) lanes[lane + k] = Numbers::of(words, first + k);
  }
}

// -- uniform numbers ------------------------------------------------------------------------------

//@ uniform_float: FUSER_MEMBER, philox
// The upper 24 bits of a word.
struct uniform_float {
  typedef float type;
  static constexpr int count = 4;
  static FUSER_MEMBER float of(philox_words words, int number) {
    const unsigned int low = number & 1 ? words.y : words.x;
    const unsigned int high = number & 1 ? words.w : words.z;
    return float(int((number & 2 ? high : low) >> 8)) * 0x1p-24f;
  }
};

//@ uniform_half: uniform_float, half
// Rounded, but not to 1.
struct uniform_half {
  typedef half type;
  static constexpr int count = 4;
  static FUSER_MEMBER half of(philox_words words, int number) {
    const float wide = uniform_float::of(words, number);
    return half(wide < 0x1.ffcp-1f ? wide : 0x1.ffcp-1f);
  }
};

//@ uniform_bfloat16: uniform_float, bfloat16
// Rounded, but not to 1.
struct uniform_bfloat16 {
  typedef bfloat16 type;
  static constexpr int count = 4;
  static FUSER_MEMBER bfloat16 of(philox_words words, int number) {
    const float wide = uniform_float::of(words, number);
    return bfloat16(wide < 0x1.fep-1f ? wide : 0x1.fep-1f);
  }
};

//@ bits_53: FUSER_DEVICE
// The upper 53 of 64 bits.
FUSER_DEVICE long long bits_53(unsigned int high, unsigned int low) {
  return (long long)high << 21 | low >> 11;
}

//@ uniform_double: FUSER_MEMBER, philox, bits_53
struct uniform_double {
  typedef double type;
  static constexpr int count = 2;
  static FUSER_MEMBER double of(philox_words words, int number) {
    const unsigned int high = number ? words.z : words.x, low = number ? words.w : words.y;
    return double(bits_53(high, low)) * 0x1p-53;
  }
};

// -- normal numbers -------------------------------------------------------------------------------

//@ cos_of_turn: FUSER_DEVICE
// cos(pi/2 (n + f)) for |f| <= 1/2; fits to 2.4e-11 and 4.4e-10.
FUSER_DEVICE float cos_of_turn(unsigned int n, float f) {
  const float t = f * f, angle = f * 1.57079637f;
  const float odd =
      t * (-0.411233515f + t * (0.0507338382f + t * (-0.00297992653f + t * 0.000100156263f)));
  const float even =
      t * (-1.23370051f + t * (0.253668547f + t * (-0.0208555683f + t * 0.000894330849f)));
  const float value = n & 1 ? angle + angle * odd : 1.0f + even;
  return (n + 1) & 2 ? -value : value;
}

//@ normal_float: FUSER_MEMBER, philox, cos_of_turn, log(float), sqrt(float)
// Box and Muller: a radius of 31 bits, and an angle of 32, whose upper two are whole quarter turns.
struct normal_float {
  typedef float type;
  static constexpr int count = 4;
  static FUSER_MEMBER float of(philox_words words, int number) {
    const unsigned int first = number & 2 ? words.z : words.x;
    const unsigned int second = number & 2 ? words.w : words.y;
    const float unit = float(int(first >> 1)) * 0x1p-31f + 0x1p-32f;
    const int rest = int(second << 2);
    const unsigned int n = (second >> 30) + (rest < 0 ? 1 : 0) + (number & 1 ? 3 : 0);
    return sqrt(-2.0f * log(unit)) * cos_of_turn(n, float(rest) * 0x1p-32f);
  }
};

//@ normal_half: normal_float, half
struct normal_half {
  typedef half type;
  static constexpr int count = 4;
  static FUSER_MEMBER half of(philox_words words, int number) {
    return half(normal_float::of(words, number));
  }
};

//@ normal_bfloat16: normal_float, bfloat16
struct normal_bfloat16 {
  typedef bfloat16 type;
  static constexpr int count = 4;
  static FUSER_MEMBER bfloat16 of(philox_words words, int number) {
    return bfloat16(normal_float::of(words, number));
  }
};

//@ normal_double: FUSER_MEMBER, philox, bits_53, log(double), sqrt(double), sin(double), cos(double)
// As normal_float, with 53 and 64 bits.
struct normal_double {
  typedef double type;
  static constexpr int count = 2;
  static FUSER_MEMBER double of(philox_words words, int number) {
    const double unit = double(bits_53(words.x, words.y) + 1) * 0x1p-53;
    const long long rest = (long long)(((unsigned long long)words.z << 32 | words.w) << 2);
    const unsigned int n = (words.z >> 30) + (rest < 0 ? 1 : 0) + (number ? 3 : 0);
    const double angle = double(rest) * 0x1p-64 * 1.5707963267948966;
    const double value = n & 1 ? sin(angle) : cos(angle);
    return sqrt(-2.0 * log(unit)) * ((n + 1) & 2 ? -value : value);
  }
};
