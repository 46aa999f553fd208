// Running sums and their kin on a CPU. Header-free, like cpu.h.

//@ running_sum
// What scans join by, of numbers and of vectors of them.
struct running_sum {
  template <class T>
  T operator()(T x, T y) const { return x + y; }
};

//@ running_product
struct running_product {
  template <class T>
  T operator()(T x, T y) const { return x * y; }
};

//@ running_maximum
// NaN wins, from either side.
struct running_maximum {
  template <class T>
  T operator()(T x, T y) const { return (y > x) | (y != y) ? y : x; }
};

//@ running_minimum
// NaN wins, from either side.
struct running_minimum {
  template <class T>
  T operator()(T x, T y) const { return (y < x) | (y != y) ? y : x; }
};

//@ scan_vector: int8, int16, int32, int64
// A vector register of some type, and integers that number its lanes.
template <int size> struct lane_number;
template <> struct lane_number<1> { typedef int8 type; };
template <> struct lane_number<2> { typedef int16 type; };
template <> struct lane_number<4> { typedef int32 type; };
template <> struct lane_number<8> { typedef int64 type; };
template <class T> struct scan_lane { typedef T type; };
template <> struct scan_lane<bool> { typedef unsigned char type; };  // there are no vectors of bool
template <class T>
struct scan_vector {
#if defined(__AVX512F__)
  static constexpr int bytes = 64;
#elif defined(__AVX2__)
  static constexpr int bytes = 32;
#else
  static constexpr int bytes = 16;
#endif
  static constexpr int width = bytes / sizeof(T);
  typedef typename scan_lane<T>::type lane;
  typedef lane type __attribute__((vector_size(bytes)));
  typedef typename lane_number<sizeof(T)>::type numbers __attribute__((vector_size(bytes)));
  static inline type filled(lane value) { return value - type{}; }
};

//@ moved_up: scan_vector
// Lane i of x in lane i + by; the first ones are those of `fill`.
template <class T, int by>
static inline typename scan_vector<T>::type moved_up(typename scan_vector<T>::type x,
                                                     typename scan_vector<T>::type fill) {
  constexpr int width = scan_vector<T>::width;
#if defined(__clang__)
  for (int i = by; i < width; ++i) fill[i] = x[i - by];
  return fill;
#else
  typename scan_vector<T>::numbers from;
  for (int i = 0; i < width; ++i) from[i] = i < by ? width + i : i - by;
  return __builtin_shuffle(x, fill, from);
#endif
}

//@ turned: scan_vector
// The lanes of x from the last to the first.
template <class T>
static inline typename scan_vector<T>::type turned(typename scan_vector<T>::type x) {
  constexpr int width = scan_vector<T>::width;
#if defined(__clang__)
  typename scan_vector<T>::type back;
  for (int i = 0; i < width; ++i) back[i] = x[width - 1 - i];
  return back;
#else
  typename scan_vector<T>::numbers from;
  for (int i = 0; i < width; ++i) from[i] = width - 1 - i;
  return __builtin_shuffle(x, from);
#endif
}

//@ scan_lanes: scan_vector, moved_up, turned
// Every lane becomes what it and all before it join to, and `carry`, what came before them, that of
// the last; all is done in the type of the carry. `none` is what joins to nothing. `Back` begins with
// the last lane. Vectors are scanned by themselves, in as many steps as their width has bits, so that
// only the carry goes from one to the next.
template <class T, int by, class Join>
static inline typename scan_vector<T>::type scanned(typename scan_vector<T>::type x,
                                                    typename scan_vector<T>::type none, Join join) {
  if constexpr (by < scan_vector<T>::width) {
    return scanned<T, 2 * by>(join(moved_up<T, by>(x, none), x), none, join);
  } else {
    return x;
  }
}
template <class Join, bool Back, class T, class Carry>
static inline __attribute__((always_inline)) void scan_lanes(T* lanes, int count, Carry none,
                                                             Carry& carry) {
  typedef scan_vector<Carry> vector;
  typedef typename scan_lane<T>::type kept
      __attribute__((vector_size(vector::width * sizeof(T)), aligned(sizeof(T)), may_alias));
  const Join join;
  const auto in_order = [](typename vector::type x) { return Back ? turned<Carry>(x) : x; };
  int done = 0;
  for (; done + vector::width <= count; done += vector::width) {
    const int lane = Back ? count - vector::width - done : done;
    kept* const place = reinterpret_cast<kept*>(lanes + lane);
    const auto own = in_order(__builtin_convertvector(*place, typename vector::type));
    const auto upto = scanned<Carry, 1>(own, vector::filled(none), join);
    *place = __builtin_convertvector(in_order(join(vector::filled(carry), upto)), kept);
    carry = join(carry, Carry(upto[vector::width - 1]));
  }
  for (; done < count; ++done) {
    const int lane = Back ? count - 1 - done : done;
    carry = join(carry, Carry(lanes[lane]));
    lanes[lane] = T(carry);
  }
}

//@ down_to_alignment: stream_vector
// Elements back to the last place where a store past the cache may end; `all` if that is here.
template <class T>
static inline int down_to_alignment(const T* end, int all) {
  const unsigned long long past = past_alignment(end);
  return past == 0 ? all : int(past / sizeof(T));
}

//@ up_to_alignment: stream_vector
// Elements before the first place where a store past the cache may begin; `all` if that is here.
template <class T>
static inline int up_to_alignment(const T* at, int all) {
  const unsigned long long past = past_alignment(at);
  return past == 0 ? all : int((sizeof(stream_vector) - past) / sizeof(T));
}

//@ store_lanes
// Stores some of the lanes of a chunk.
template <class To, class From>
static inline void store_lanes(To* __restrict to, const From* from, int count) {
  for (int lane = 0; lane < count; ++lane) to[lane] = To(from[lane]);
}

//@ threads_here
extern "C" int omp_get_num_threads();
static inline int threads_here() { return omp_get_num_threads(); }
