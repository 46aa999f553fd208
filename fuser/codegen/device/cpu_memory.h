// Moving memory on a CPU: rows written past the cache. Header-free, like cpu.h.

//@ stream_vector
// One store that bypasses the cache, of as many bytes as a vector register holds.
#if defined(__AVX512F__)
typedef float stream_vector __attribute__((vector_size(64), may_alias));
#elif defined(__AVX__)
typedef float stream_vector __attribute__((vector_size(32), may_alias));
#else
typedef float stream_vector __attribute__((vector_size(16), may_alias));
#endif
typedef stream_vector stream_unaligned __attribute__((aligned(1)));

static inline void stream(stream_vector* to, stream_vector moved) {
#if defined(__clang__)
  __builtin_nontemporal_store(moved, to);
#elif defined(__AVX512F__)
  __builtin_ia32_movntps512(reinterpret_cast<float*>(to), moved);
#elif defined(__AVX__)
  __builtin_ia32_movntps256(reinterpret_cast<float*>(to), moved);
#elif defined(__SSE__)
  __builtin_ia32_movntps(reinterpret_cast<float*>(to), moved);
#else
  *to = moved;
#endif
}

static inline unsigned long long past_alignment(const void* at) {
  return reinterpret_cast<unsigned long long>(at) % sizeof(stream_vector);
}

//@ prefetch_line: FUSER_DEVICE
// Asks for what is read soon, a page further on: processors look ahead by themselves within a page.
// (g++ drops calls of functions that only prefetch, unless they are inlined before it looks.)
FUSER_DEVICE void prefetch_line(const void* now) {
  __builtin_prefetch(static_cast<const char*>(now) + 4096, 0, 2);
}

//@ stream_row: stream_vector
// Copies a row with stores that bypass the cache: for outputs larger than it, which would be read
// in only to be overwritten. Whole vectors from the first aligned address; the ends one by one.
// Rows are written in order and read from here and there: the next rows of each place, 1 KiB
// further, are asked for. (Read in order and written here and there takes twice the time under some
// alignments of the two tensors.)
template <class T>
static inline void stream_row(T* __restrict to, const T* __restrict from, long long count) {
  constexpr long long width = sizeof(stream_vector) / sizeof(T);
  const long long head = (sizeof(stream_vector) - past_alignment(to)) % sizeof(stream_vector);
  long long i = 0;
  for (; i < count && i * (long long)sizeof(T) < head; ++i) to[i] = from[i];
  for (; i + width <= count; i += width) {
    __builtin_prefetch(reinterpret_cast<const char*>(from + i) + 1024);
    stream(reinterpret_cast<stream_vector*>(to + i),
           *reinterpret_cast<const stream_unaligned*>(from + i));
  }
  for (; i < count; ++i) to[i] = from[i];
}

//@ stream_chunk: stream_vector
// Stores a chunk that was computed in registers, past the cache where its place is aligned.
template <class T, int Count>
static inline void stream_chunk(T* __restrict to, const T (&from)[Count], bool past_cache = true) {
  constexpr int width = sizeof(stream_vector) / sizeof(T);
  static_assert(Count % width == 0, "whole vectors");
  if (past_cache && past_alignment(to) == 0) {
    for (int i = 0; i < Count; i += width) {
      stream(reinterpret_cast<stream_vector*>(to + i),
             *reinterpret_cast<const stream_unaligned*>(from + i));
    }
  } else {
    for (int i = 0; i < Count; ++i) to[i] = from[i];
  }
}

//@ copy_part
// Copies less than twice as many bytes as `Most`: by the largest power of two that fits, from both
// ends, which meet or overlap.
template <int Most>
static inline void copy_part(void* to, const void* from, long long bytes) {
  if constexpr (Most > 0) {
    if (bytes < Most) return copy_part<Most / 2>(to, from, bytes);
    char head[Most], tail[Most];
    __builtin_memcpy(head, from, Most);
    __builtin_memcpy(tail, static_cast<const char*>(from) + bytes - Most, Most);
    __builtin_memcpy(to, head, Most);
    __builtin_memcpy(static_cast<char*>(to) + bytes - Most, tail, Most);
  }
}

//@ stream_some: stream_chunk, copy_part
// Stores elements `first` to `last` - 1 of a chunk, past the cache but for what is before the first
// and after the last vector that is aligned. No line is written both ways: that takes long. Ends of
// rows are stored so: it is not made a part of the loop.
template <class T, int Count>
__attribute__((noinline)) static void stream_some(T* __restrict to, const T (&from)[Count],
                                                  long long first, long long last) {
  constexpr int bytes = sizeof(stream_vector), width = bytes / sizeof(T);
  const long long ahead = (bytes - past_alignment(to + first)) % bytes / sizeof(T);
  const long long begin = first + ahead < last ? first + ahead : last;
  copy_part<bytes / 2>(to + first, from + first, (begin - first) * sizeof(T));
  long long i = begin;
  for (; i + width <= last; i += width) {
    stream(reinterpret_cast<stream_vector*>(to + i),
           *reinterpret_cast<const stream_unaligned*>(from + i));
  }
  copy_part<bytes / 2>(to + i, from + i, (last - i) * sizeof(T));
}

//@ stream_part: stream_chunk, stream_some
// Stores elements `first` to `last` - 1 of a chunk, which mostly are all. Others end within a line,
// which another row has too: that is asked for where the same chunk of a `later` row ends.
template <class T, int Count>
static inline void stream_part(T* __restrict to, const T (&from)[Count], long long first,
                               long long last, const T* later = nullptr) {
  if (first == 0 && last == Count) {
    stream_chunk(to, from);
  } else {
    if (later != nullptr) __builtin_prefetch(later + (first > 0 ? first : last), 1);
    stream_some(to, from, first, last);
  }
}

//@ stream_moved: FUSER_DEVICE, stream_chunk, stream_some
// Stores a chunk that was moved by so many elements to be in range: only what no other chunk has.
// Where nothing goes past the cache, the rest may be stored as well.
template <class T, int Count>
FUSER_DEVICE void stream_moved(T* __restrict to, const T (&from)[Count], long long moved,
                               bool past_cache) {
  if (moved == 0 || !past_cache) {
    stream_chunk(to, from, past_cache);
  } else {
    stream_some(to, from, moved < 0 ? -moved : 0, moved > 0 ? Count - moved : Count);
  }
}

//@ past_line
// How many elements a place is past the beginning of its cache line.
template <class T>
static inline long long past_line(const T* at) {
  return (long long)(reinterpret_cast<unsigned long long>(at) % 64 / sizeof(T));
}

//@ round_bfloat16: bfloat16
// A chunk that was computed in float32 as bfloat16. Where the processor rounds so, it does: but for
// NaN and subnormal numbers, which it takes otherwise.
template <int Count>
static inline void round_chunk(bfloat16 (&rounded)[Count], const float (&from)[Count]) {
#if defined(__AVX512BF16__) && defined(__AVX512DQ__)
  static_assert(Count % 32 == 0, "whole vectors");
  typedef float floats __attribute__((vector_size(64), aligned(4), may_alias));
  typedef short pairs __attribute__((vector_size(64)));
  typedef pairs stored __attribute__((aligned(2), may_alias));
  const int nan_or_subnormal = 0xa1;
  unsigned int special = 0;
  for (int i = 0; i < Count; i += 32) {
    const floats low = *reinterpret_cast<const floats*>(from + i);
    const floats high = *reinterpret_cast<const floats*>(from + i + 16);
    special |= __builtin_ia32_fpclassps512_mask(low, nan_or_subnormal, 0xffff);
    special |= __builtin_ia32_fpclassps512_mask(high, nan_or_subnormal, 0xffff);
#if defined(__clang__)
    *reinterpret_cast<stored*>(rounded + i) = pairs(__builtin_ia32_cvtne2ps2bf16_512(high, low));
#else
    *reinterpret_cast<stored*>(rounded + i) = pairs(__builtin_ia32_cvtne2ps2bf16_v32hi(high, low));
#endif
  }
  if (special == 0) return;
#endif
  for (int i = 0; i < Count; ++i) rounded[i] = bfloat16(from[i]);
}

//@ round_half: half
// A chunk that was computed in float32 as float16, by the processor where it has instructions for it.
template <int Count>
static inline void round_chunk(half (&rounded)[Count], const float (&from)[Count]) {
#if defined(__AVX512F__)
  static_assert(Count % 16 == 0, "whole vectors");
  typedef float floats __attribute__((vector_size(64), aligned(4), may_alias));
  typedef short halves __attribute__((vector_size(32)));
  typedef halves stored __attribute__((aligned(2), may_alias));
  const int to_nearest = 0;
  for (int i = 0; i < Count; i += 16) {
    *reinterpret_cast<stored*>(rounded + i) = __builtin_ia32_vcvtps2ph512_mask(
        *reinterpret_cast<const floats*>(from + i), to_nearest, halves{}, 0xffff);
  }
#elif defined(__F16C__)
  static_assert(Count % 8 == 0, "whole vectors");
  typedef float floats __attribute__((vector_size(32), aligned(4), may_alias));
  typedef short halves __attribute__((vector_size(16)));
  typedef halves stored __attribute__((aligned(2), may_alias));
  const int to_nearest = 0;
  for (int i = 0; i < Count; i += 8) {
    *reinterpret_cast<stored*>(rounded + i) =
        __builtin_ia32_vcvtps2ph256(*reinterpret_cast<const floats*>(from + i), to_nearest);
  }
#else
  for (int i = 0; i < Count; ++i) rounded[i] = half(from[i]);
#endif
}

//@ stream_rounded: stream_chunk, narrow_float
// Stores a chunk that was computed in float32 as a float of 16 bits.
template <class Format, int Count>
static inline void stream_rounded(narrow_float<Format>* __restrict to, const float (&from)[Count],
                                  bool past_cache = true) {
  narrow_float<Format> rounded[Count];
  round_chunk(rounded, from);
  stream_chunk(to, rounded, past_cache);
}

//@ stream_rounded_part: stream_part, narrow_float
// Stores elements `first` to `last` - 1 of such a chunk.
template <class Format, int Count>
static inline void stream_rounded_part(narrow_float<Format>* __restrict to,
                                       const float (&from)[Count], long long first,
                                       long long last,
                                       const narrow_float<Format>* later = nullptr) {
  narrow_float<Format> rounded[Count];
  round_chunk(rounded, from);
  stream_part(to, rounded, first, last, later);
}

//@ stream_rounded_moved: FUSER_DEVICE, stream_moved, narrow_float
// As `stream_moved`, such a chunk.
template <class Format, int Count>
FUSER_DEVICE void stream_rounded_moved(narrow_float<Format>* __restrict to,
                                       const float (&from)[Count], long long moved,
                                       bool past_cache) {
  narrow_float<Format> rounded[Count];
  round_chunk(rounded, from);
  stream_moved(to, rounded, moved, past_cache);
}

//@ gathered: FUSER_DEVICE
// The element of 8 or 16 bits that is `at` elements from `from`, by the aligned 32 bits that it lies
// in, as processors gather these: an integer, or a number with the bits of one. A page has all of
// such a word, so there is memory beside the first and the last element.
typedef unsigned int memory_word __attribute__((may_alias));
template <class T>
FUSER_DEVICE T gathered(const T* from, long long at) {
  constexpr int size = sizeof(T), count = 4 / size;
  const unsigned long long begin = reinterpret_cast<unsigned long long>(from);
  const memory_word* words = reinterpret_cast<const memory_word*>(begin / 4 * 4);
  const long long place = at + (long long)(begin % 4 / size);
  const memory_word bits = words[place / count] >> (place % count * (8 * size));
  if constexpr (__is_class(T)) {
    T element;
    element.bits = bits;
    return element;
  } else {
    return T(bits);
  }
}

//@ prefetch_ahead: FUSER_DEVICE, prefetch_line
// Asks for what the chunks after this one read.
template <int Count, class T>
FUSER_DEVICE void prefetch_ahead(const T* at) {
  const char* now = reinterpret_cast<const char*>(at);
  for (unsigned int line = 0; line < Count * sizeof(T); line += 64) prefetch_line(now + line);
}

//@ prefetch_lanes: FUSER_DEVICE
// Asks for what later rows read, into the second level.
template <int Count, class T>
FUSER_DEVICE void prefetch_lanes(const T* at) {
  for (unsigned int byte = 0; byte < Count * sizeof(T); byte += 64) {
    __builtin_prefetch(reinterpret_cast<const char*>(at) + byte, 0, 2);
  }
}

//@ stream_fence
// Orders stores that bypassed the cache before whatever another thread reads next.
static inline void stream_fence() {
#if defined(__SSE__)
  __builtin_ia32_sfence();
#endif
}

//@ on_own_lines
// Room for numbers of one thread: no vector of them lies across two lines, and no line, nor one that
// is brought in with it, has what another thread writes. It is freed by free().
extern "C" void* aligned_alloc(unsigned long alignment, unsigned long size);
template <class T>
static inline T* on_own_lines(long long count) {
  return static_cast<T*>(aligned_alloc(128, (sizeof(T) * count + 127) / 128 * 128));
}

//@ turn_block
// Turns a block of Side vectors of as many words: its halves change places across, then theirs.
template <int Bytes> struct word;
template <> struct word<1> { typedef unsigned char type; };
template <> struct word<2> { typedef unsigned short type; };
template <> struct word<4> { typedef unsigned int type; };
template <> struct word<8> { typedef unsigned long long type; };

template <class Word, int Side> struct words {
  typedef Word vector __attribute__((vector_size(Side * sizeof(Word)), may_alias));
  typedef vector unaligned __attribute__((aligned(sizeof(Word))));
};

template <int Side, class Vector, class Which>
static inline Vector pick(Vector low, Vector high, Which which) {
#if defined(__clang__)
  Vector picked;
  for (int i = 0; i < Side; ++i) {
    picked[i] = which[i] < Side ? low[which[i]] : high[which[i] - Side];
  }
  return picked;
#else
  return __builtin_shuffle(low, high, which);
#endif
}

// Of each two groups of Size bytes, one of `low` changes places with one of `high`. Groups are single
// words of their size: compilers know no short instruction for several that stay together. Below
// four bytes they are shifted, since shuffles take longer.
template <int Size, class Vector>
static inline __attribute__((always_inline)) void exchange_groups(Vector& low, Vector& high) {
  if constexpr (Size < 4) {
    typedef typename word<2 * Size>::type Pair;
    typedef Pair Pairs __attribute__((vector_size(sizeof(Vector)), may_alias));
    constexpr Pair first_of_pair = Pair((1u << (8 * Size)) - 1);
    const Pairs first = Pairs(low), second = Pairs(high);
    low = Vector((first & first_of_pair) | (second << (8 * Size)));
    high = Vector((first >> (8 * Size)) | (second & Pair(~first_of_pair)));
  } else {
    constexpr int bytes = Size < 8 ? Size : 8, side = sizeof(Vector) / bytes, apart = Size / bytes;
    typedef typename words<typename word<bytes>::type, side>::vector Groups;
    Groups even, odd;
    for (int i = 0; i < side; ++i) {
      even[i] = i & apart ? side + i - apart : i;
      odd[i] = i & apart ? side + i : i + apart;
    }
    const Groups first = Groups(low), second = Groups(high);
    low = Vector(pick<side>(first, second, even));
    high = Vector(pick<side>(first, second, odd));
  }
}

template <int Half, int Side, class Vector>
static inline __attribute__((always_inline)) void turn_block(Vector (&rows)[Side]) {
  if constexpr (Half > 0) {
    for (int i = 0; i < Side; ++i) {
      if (i & Half) continue;
      exchange_groups<Half * sizeof(Vector) / Side>(rows[i], rows[i + Half]);
    }
    turn_block<Half / 2>(rows);
  }
}

//@ join_turned: turn_block
// Joins lanes as they are turned: of two rows that are Half apart, each keeps half of its lanes, to
// which the others are joined. In the end the first has in each lane what a row comes to.
template <class Join, class Vector, int Side>
static inline Vector join_vectors(Join join, Vector x, Vector y) {
#if defined(__clang__)
  Vector joined;
  for (int lane = 0; lane < Side; ++lane) joined[lane] = join(x[lane], y[lane]);
  return joined;
#else
  return join(x, y);
#endif
}

template <int Half, int Side, class Vector, class Join>
static inline __attribute__((always_inline)) void join_turned(Vector (&rows)[Side], Join join) {
  if constexpr (Half > 0) {
    typename words<unsigned int, Side>::vector own, other;
    for (int lane = 0; lane < Side; ++lane) {
      own[lane] = lane & Half ? Side + lane : lane;
      other[lane] = lane & Half ? Side + lane - Half : lane + Half;
    }
    for (int row = 0; row < Half; ++row) {
      const Vector low = rows[row], high = rows[row + Half];
      const Vector kept = pick<Side>(low, high, own), moved = pick<Side>(low, high, other);
      rows[row] = join_vectors<Join, Vector, Side>(join, kept, moved);
    }
    join_turned<Half / 2>(rows, join);
  }
}

//@ tile_block: turn_block, stream_vector
// The widest block of a tile that registers hold, in words of an element's size: a power of two, 1 if
// none does.
template <class T, int Lines, int Columns>
constexpr int block_side() {
  constexpr int lanes = sizeof(stream_vector) / sizeof(T);
  constexpr int held = lanes < 16 ? lanes : 16;
  constexpr int shorter = Lines < Columns ? Lines : Columns;
  int side = sizeof(T) > 8 ? 1 : held;
  while (side > shorter) side /= 2;
  return side;
}

//@ fill_tile: tile_block
// Reads a tile of which memory holds columns: `column` gives the address of each, from `first` on.
// Of fewer columns than there is room for, the last block is moved back to end with them, and so is
// the last one of lines that are no whole blocks. It asks for what the next tile reads, whose lines
// come after these: processors follow fewer columns than a tile has.
template <class T, int Lines, int Columns, class Index, class Column>
static inline void fill_tile(T (&tile)[Lines][Columns], Index first, Column column,
                             int count = Columns) {
  constexpr int side = block_side<T, Lines, Columns>();
  if constexpr (side == 1) {
    for (int i = 0; i < count; ++i) {
      const T* from = column(first + i);
      for (int line = 0; line < Lines; ++line) tile[line][i] = from[line];
    }
  } else {
    typedef words<typename word<sizeof(T)>::type, side> block;
    for (int block_at = 0; block_at < count; block_at += side) {
      const int i = block_at < count - side ? block_at : count - side;
      for (int line_at = 0; line_at < Lines; line_at += side) {
        const int line = Lines % side == 0 || line_at < Lines - side ? line_at : Lines - side;
        typename block::vector rows[side];
        for (int k = 0; k < side; ++k) {
          const T* from = column(first + i + k) + line;
          rows[k] = *reinterpret_cast<const typename block::unaligned*>(from);
          if (line * sizeof(T) % 64 == 0) __builtin_prefetch(from + Lines, 0, 2);
        }
        turn_block<side / 2>(rows);
        for (int k = 0; k < side; ++k) {
          *reinterpret_cast<typename block::unaligned*>(&tile[line + k][i]) = rows[k];
        }
      }
    }
  }
}

//@ drain_tile: tile_block
// Writes a tile as `fill_tile` reads it, past the cache where a vector's place is aligned.
template <bool PastCache, class T, int Lines, int Columns, class Index, class Column>
static inline void drain_tile(const T (&tile)[Lines][Columns], Index first, Column column,
                              int count = Columns) {
  constexpr int side = block_side<T, Lines, Columns>();
  if constexpr (side == 1) {
    for (int i = 0; i < count; ++i) {
      T* to = column(first + i);
      for (int line = 0; line < Lines; ++line) to[line] = tile[line][i];
    }
  } else {
    typedef words<typename word<sizeof(T)>::type, side> block;
    constexpr bool whole = sizeof(typename block::vector) == sizeof(stream_vector);
    for (int block_at = 0; block_at < count; block_at += side) {
      const int i = block_at < count - side ? block_at : count - side;
      for (int line_at = 0; line_at < Lines; line_at += side) {
        const int line = Lines % side == 0 || line_at < Lines - side ? line_at : Lines - side;
        typename block::vector rows[side];
        for (int k = 0; k < side; ++k) {
          rows[k] = *reinterpret_cast<const typename block::unaligned*>(&tile[line + k][i]);
        }
        turn_block<side / 2>(rows);
        for (int k = 0; k < side; ++k) {
          T* to = column(first + i + k) + line;
          if constexpr (PastCache && whole) {
            if (past_alignment(to) == 0) {
              stream(reinterpret_cast<stream_vector*>(to), stream_vector(rows[k]));
              continue;
            }
          }
          *reinterpret_cast<typename block::unaligned*>(to) = rows[k];
        }
      }
    }
  }
}
