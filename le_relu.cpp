// pointwise_relu_le: 51380224 bytes read, 12845056 written
// ends here: T3 is an output
//   T0 = fd.define_tensor(shape=[4096, 3136], contiguity=[True, True], dtype=DataType.Float)
//   T1 = fd.ops.relu(T0)
//   S2 = fd.define_scalar(0, dtype=DataType.Int)
//   T3 = fd.ops.le(T1, S2)
typedef long long int64;

// Asks for what is read soon, a page further on: processors look ahead by themselves within a page.
static inline void prefetch_line(const void* now) {
  __builtin_prefetch(static_cast<const char*>(now) + 4096, 0, 2);
}

// Asks for what the chunks after this one read.
template <int Count, class T>
static inline void prefetch_ahead(const T* at) {
  const char* now = reinterpret_cast<const char*>(at);
  for (unsigned int line = 0; line < Count * sizeof(T); line += 64) prefetch_line(now + line);
}

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

// Orders stores that bypassed the cache before whatever another thread reads next.
static inline void stream_fence() {
#if defined(__SSE__)
  __builtin_ia32_sfence();
#endif
}

extern "C" void pointwise_relu_le(const float* __restrict T0_in, bool* __restrict T3_out, const int64 n0, const int64 chunks, const bool threaded) {
  #pragma omp parallel if (threaded)
  {
    #pragma omp for
    for (int64 chunk = 0; chunk < chunks; ++chunk) {
      const int64 i0 = chunk * 64 < n0 - 64 ? chunk * 64 : n0 - 64;
      prefetch_ahead<64>(T0_in + i0);
      bool T3_lanes[64];
      #pragma omp simd
      for (int lane = 0; lane < 64; ++lane) {
        const float T0 = T0_in[i0 + lane];
        const float T1 = T0 < 0 ? 0 : T0;
        const bool T3 = T1 <= 0.0f;
        T3_lanes[lane] = T3;
      }
      stream_chunk(T3_out + i0, T3_lanes);
    }
    stream_fence();
  }
}
