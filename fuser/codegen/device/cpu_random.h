// Random numbers on a CPU: blocks side by side in vector lanes. Header-free, like cpu.h.

//@ philox_lanes: FUSER_DEVICE
// Blocks in vector lanes of 64 bits, of which the lower halves count: a product of these is one
// instruction, and what it leaves above the lower word need not be cleared.
#if defined(__AVX512F__)
typedef unsigned long long philox_lanes __attribute__((vector_size(64)));
FUSER_DEVICE philox_lanes lane_numbers() { return philox_lanes{0, 1, 2, 3, 4, 5, 6, 7}; }
#elif defined(__AVX2__)
typedef unsigned long long philox_lanes __attribute__((vector_size(32)));
FUSER_DEVICE philox_lanes lane_numbers() { return philox_lanes{0, 1, 2, 3}; }
#else
typedef unsigned long long philox_lanes __attribute__((vector_size(16)));
FUSER_DEVICE philox_lanes lane_numbers() { return philox_lanes{0, 1}; }
#endif
FUSER_DEVICE philox_lanes lower_product(philox_lanes x, unsigned int factor) {
  const philox_lanes y = philox_lanes{} + factor;
#if defined(__clang__) || !defined(__SSE2__)
  return (x & 0xffffffffull) * y;
#elif defined(__AVX512F__)
  typedef int words __attribute__((vector_size(64)));
  typedef long long products __attribute__((vector_size(64)));
  return philox_lanes(__builtin_ia32_pmuludq512_mask(words(x), words(y), products{}, 0xff));
#elif defined(__AVX2__)
  typedef int words __attribute__((vector_size(32)));
  return philox_lanes(__builtin_ia32_pmuludq256(words(x), words(y)));
#else
  typedef int words __attribute__((vector_size(16)));
  return philox_lanes(__builtin_ia32_pmuludq128(words(x), words(y)));
#endif
}

//@ philox_blocks: FUSER_DEVICE, philox_lanes
// The words of neighbouring blocks, each kind of word side by side.
template <int count>
FUSER_DEVICE void philox_blocks(unsigned int (&to)[4][count], long long seed, long long offset,
                                unsigned long long block) {
  constexpr int width = sizeof(philox_lanes) / 8;
  static_assert(count % width == 0, "whole vectors");
  typedef unsigned int words __attribute__((vector_size(4 * width), aligned(4), may_alias));
  const philox_lanes zero = {}, first_block = lane_numbers() + block;
  for (int b = 0; b < count; b += width) {
    philox_lanes x = zero + (unsigned long long)offset, y = x >> 32, z = first_block + b, w = z >> 32;
    philox_lanes first = zero + (unsigned long long)seed, second = first >> 32;
    for (int round = 0; round < 10; ++round) {
      const philox_lanes of_x = lower_product(x, 0xD2511F53u), of_z = lower_product(z, 0xCD9E8D57u);
      x = of_z >> 32 ^ y ^ first;
      z = of_x >> 32 ^ w ^ second;
      y = of_z;
      w = of_x;
      first += 0x9E3779B9u;
      second += 0xBB67AE85u;
    }
    *reinterpret_cast<words*>(to[0] + b) = __builtin_convertvector(x, words);
    *reinterpret_cast<words*>(to[1] + b) = __builtin_convertvector(y, words);
    *reinterpret_cast<words*>(to[2] + b) = __builtin_convertvector(z, words);
    *reinterpret_cast<words*>(to[3] + b) = __builtin_convertvector(w, words);
  }
}

//@ draw_lanes: FUSER_DEVICE, philox, philox_blocks
// The numbers of one block.
template <class Numbers, int number = 0, class T>
FUSER_DEVICE void draw_block(T* to, philox_words words) {
  if constexpr (number < Numbers::count) {
    to[number] = Numbers::of(words, number);
    draw_block<Numbers, number + 1>(to, words);
  }
}
// The place, in `room`, of N numbers from number i on.
template <class Numbers, int N, class T, int room_for>
FUSER_DEVICE const T* draw_lanes(T (&room)[room_for], long long seed, long long offset,
                                 unsigned long long i) {
  constexpr int count = Numbers::count, blocks = N / count;
  static_assert(N % count == 0 && room_for == N + count, "whole blocks, and one to begin within");
  constexpr int width = sizeof(philox_lanes) / 8;
  unsigned int words[4][(blocks + width - 1) / width * width];
  philox_blocks(words, seed, offset, i / count);
#pragma omp simd
  for (int b = 0; b < blocks; ++b) {
    draw_block<Numbers>(room + b * count, {words[0][b], words[1][b], words[2][b], words[3][b]});
  }
  if (i % count != 0) draw_block<Numbers>(room + N, philox(seed, offset, i / count + blocks));
  return room + i % count;
}
