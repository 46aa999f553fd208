// pointwise_set: 25165824 bytes read, 25165824 written
// ends here: T3 leaves through reshape, metadata
//   T2 = fd.define_tensor(shape=[64, 128, 12, 64], dtype=DataType.Float)
//   T3 = fd.ops.set(T2)
// Another type than int64, so that to a compiler no store to a tensor of those changes an index.
typedef long index64;
static_assert(sizeof(index64) == 8, "64 bits");

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

// Orders stores that bypassed the cache before whatever another thread reads next.
static inline void stream_fence() {
#if defined(__SSE__)
  __builtin_ia32_sfence();
#endif
}

extern "C" void pointwise_set(const float* __restrict T2_in, float* __restrict T3_out, const index64 n0, const index64 n1, const index64 n2, const index64 n3, const index64 T2_stride_1, const index64 T2_stride_2, const bool threaded) {
  #pragma omp parallel if (threaded)
  {
    #pragma omp for collapse(2)
    for (index64 i0 = 0; i0 < n0; ++i0) {
      for (index64 i1 = 0; i1 < n1; ++i1) {
        for (index64 i2 = 0; i2 < n2; ++i2) {
          stream_row(T3_out + i0 * n1 * n2 * n3 + i1 * n2 * n3 + i2 * n3, T2_in + i0 * n1 * n2 * n3 + i1 * T2_stride_1 + i2 * T2_stride_2, n3);
        }
      }
    }
    stream_fence();
  }
}
