// Moving memory on a CPU: rows written past the cache. Header-free, like cpu.h.

//@ stream_row
// Copies a row with stores that bypass the cache: for outputs larger than it, which would be read
// in only to be overwritten. Whole vectors from the first aligned address; the ends one by one.
template <class T>
static inline void stream_row(T* __restrict to, const T* __restrict from, long long count) {
#if defined(__AVX512F__)
  typedef float vector __attribute__((vector_size(64)));
#elif defined(__AVX__)
  typedef float vector __attribute__((vector_size(32)));
#else
  typedef float vector __attribute__((vector_size(16)));
#endif
  typedef vector unaligned __attribute__((aligned(1), may_alias));
  constexpr long long width = sizeof(vector) / sizeof(T);
  const unsigned long long past = reinterpret_cast<unsigned long long>(to) % sizeof(vector);
  long long i = 0;
  for (; i < count && i * sizeof(T) < (sizeof(vector) - past) % sizeof(vector); ++i) to[i] = from[i];
  for (; i + width <= count; i += width) {
    const vector moved = *reinterpret_cast<const unaligned*>(from + i);
#if defined(__clang__)
    __builtin_nontemporal_store(moved, reinterpret_cast<vector*>(to + i));
#elif defined(__AVX512F__)
    __builtin_ia32_movntps512(reinterpret_cast<float*>(to + i), moved);
#elif defined(__AVX__)
    __builtin_ia32_movntps256(reinterpret_cast<float*>(to + i), moved);
#elif defined(__SSE__)
    __builtin_ia32_movntps(reinterpret_cast<float*>(to + i), moved);
#else
    *reinterpret_cast<unaligned*>(to + i) = moved;
#endif
  }
  for (; i < count; ++i) to[i] = from[i];
}

//@ stream_fence
// Orders stores that bypassed the cache before whatever another thread reads next.
static inline void stream_fence() {
#if defined(__SSE__)
  __builtin_ia32_sfence();
#endif
}
