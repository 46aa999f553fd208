// pointwise_set: 25165824 bytes read, 25165824 written
// ends here: T3 leaves through reshape, metadata
//   T2 = fd.define_tensor(shape=[64, 128, 12, 64], dtype=DataType.Float)
//   T3 = fd.ops.set(T2)
typedef long long int64;

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

// Orders stores that bypassed the cache before whatever another thread reads next.
static inline void stream_fence() {
#if defined(__SSE__)
  __builtin_ia32_sfence();
#endif
}

extern "C" void pointwise_set(const float* __restrict T2_in, float* __restrict T3_out, const int64 n0, const int64 n1, const int64 n2, const int64 n3, const int64 T3_stride_2, const int64 T3_stride_1, const bool threaded) {
  #pragma omp parallel if (threaded)
  {
    #pragma omp for collapse(3)
    for (int64 i0 = 0; i0 < n0; ++i0) {
      for (int64 i1 = 0; i1 < n1; ++i1) {
        for (int64 i2 = 0; i2 < n2; ++i2) {
          stream_row(T3_out + i0 * n1 * n2 * n3 + i2 * T3_stride_2 + i1 * T3_stride_1, T2_in + i0 * n1 * n2 * n3 + i2 * n3 + i1 * n2 * n3, n3);
        }
      }
    }
    stream_fence();
  }
}
