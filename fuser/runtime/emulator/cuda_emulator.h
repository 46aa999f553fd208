// CUDA C++ as the emulator's C++ compiler sees it: qualifiers, builtin types and functions.
//
// Included before a kernel's text. No standard header: a kernel compiles in a tenth of a second.
#pragma once

#include "fibers.h"

#define FUSER_EMULATOR 1
#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(bytes) alignas(bytes)
#define __shared__ static __attribute__((section("fuser_shared")))

constexpr int warpSize = 32;
using size_t = decltype(sizeof(0));

// -- vector types ------------------------------------------------------------------------------

#define FUSER_VECTORS(T, name, bytes)                                        \
  struct alignas(2 * bytes) name##2 { T x, y; };                             \
  struct name##3 { T x, y, z; };                                             \
  struct alignas(4 * bytes > 16 ? 16 : 4 * bytes) name##4 { T x, y, z, w; }; \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }                 \
  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }         \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define uint3 fuser_uint3  // fibers.h has its own, of the same members
FUSER_VECTORS(char, char, 1)
FUSER_VECTORS(unsigned char, uchar, 1)
FUSER_VECTORS(short, short, 2)
FUSER_VECTORS(unsigned short, ushort, 2)
FUSER_VECTORS(int, int, 4)
FUSER_VECTORS(unsigned int, uint, 4)
FUSER_VECTORS(long long, longlong, 8)
FUSER_VECTORS(unsigned long long, ulonglong, 8)
FUSER_VECTORS(float, float, 4)
FUSER_VECTORS(double, double, 8)
#undef uint3
#undef FUSER_VECTORS

// -- meeting -----------------------------------------------------------------------------------

namespace emulator {

template <typename T>
Word word_of(T value) {
  static_assert(sizeof(T) <= 8, "shuffles move up to 8 bytes");
  Word word = 0;
  __builtin_memcpy(&word, &value, sizeof(T));
  return word;
}

template <typename T>
T of_word(Word word) {
  T value;
  __builtin_memcpy(&value, &word, sizeof(T));
  return value;
}

template <typename T>
T shuffled(const Site& site, unsigned int mask, T value, unsigned int source) {
  return of_word<T>(shuffle(site, mask, word_of(value), source));
}

// The lane a shuffle reads; its own where the other lies outside its part of the warp.
inline unsigned int lane_up(unsigned int by, unsigned int width) {
  return lane() % width < by ? lane() : lane() - by;
}
inline unsigned int lane_down(unsigned int by, unsigned int width) {
  return lane() % width + by >= width ? lane() : lane() + by;
}
inline unsigned int lane_xor(unsigned int bits, unsigned int width) {
  const unsigned int other = lane() ^ bits;
  return other / width > lane() / width ? lane() : other;
}
inline unsigned int lane_at(unsigned int index, unsigned int width) {
  return lane() / width * width + index % width;
}

inline Word either(Word a, Word b) { return a | b; }

}  // namespace emulator

#define FUSER_AT(operation, orders, call)                                  \
  [&] {                                                                    \
    static const emulator::Site site{operation, __LINE__, orders};         \
    return call;                                                           \
  }()
#define FUSER_SHUFFLE(operation, mask, value, source) \
  FUSER_AT(operation, false, emulator::shuffled(site, mask, value, source))
#define FUSER_WIDTH(unused, width, ...) width

#define __syncthreads() FUSER_AT("__syncthreads", true, emulator::meet_block(site))
#define __syncwarp(...) \
  FUSER_AT("__syncwarp", true, (void)emulator::meet(site, emulator::mask_or_all(__VA_ARGS__)))
#define __ballot_sync(mask, p)                                                             \
  FUSER_AT("__ballot_sync", false,                                                         \
           (unsigned int)emulator::meet(site, mask, (emulator::Word)!!(p) << emulator::lane(), \
                                        emulator::either))
#define __any_sync(mask, p) \
  FUSER_AT("__any_sync", false, (int)emulator::meet(site, mask, !!(p), emulator::either))
#define __nanosleep(ns) FUSER_AT("__nanosleep", false, ((void)(ns), emulator::pass(site)))
#define __shfl_sync(mask, value, ...) \
  FUSER_AT("__shfl_sync", false, emulator::shfl(site, mask, value, __VA_ARGS__))
#define __shfl_up_sync(mask, value, ...) \
  FUSER_AT("__shfl_up_sync", false, emulator::shfl_up(site, mask, value, __VA_ARGS__))
#define __shfl_down_sync(mask, value, ...) \
  FUSER_AT("__shfl_down_sync", false, emulator::shfl_down(site, mask, value, __VA_ARGS__))
#define __shfl_xor_sync(mask, value, ...) \
  FUSER_AT("__shfl_xor_sync", false, emulator::shfl_xor(site, mask, value, __VA_ARGS__))
// Twins of PTX instructions, for the device library.
#define FUSER_MEET_TEAM(threads) FUSER_AT("bar.sync", true, emulator::meet_team(site, threads))
#define FUSER_MEET_CLUSTER() FUSER_AT("barrier.cluster", false, emulator::meet_cluster(site))
#define FUSER_OPEN_BARRIER(barrier) \
  FUSER_AT("mbarrier.init", false, emulator::open_barrier(site, barrier))
#define FUSER_EXPECT_BYTES(barrier, bytes) \
  FUSER_AT("mbarrier.arrive", false, emulator::expect_bytes(site, barrier, bytes))
#define FUSER_AWAIT_BYTES(barrier, parity) \
  FUSER_AT("mbarrier.try_wait", false, emulator::await_bytes(site, barrier, parity))
#define FUSER_SEND_ACROSS(to, word, barrier, rank) \
  FUSER_AT("st.async", false, emulator::send_across(site, to, word, barrier, rank))
#define FUSER_COPY_LATER(to, from, bytes) \
  FUSER_AT("cp.async", false, emulator::copy_later(site, {to, from, bytes}))
#define FUSER_WAIT_FOR_COPIES() emulator::make_copies()
#define __trap() emulator::fail("__trap", __LINE__, "the kernel trapped")
#define assert(condition) \
  ((condition) ? (void)0 : emulator::fail("assert", __LINE__, #condition))

namespace emulator {

inline unsigned int mask_or_all(unsigned int mask = 0xffffffffu) { return mask; }

template <typename T>
T shfl(const Site& site, unsigned int mask, T value, int index, int width = 32) {
  return shuffled(site, mask, value, lane_at(index, width));
}
template <typename T>
T shfl_up(const Site& site, unsigned int mask, T value, unsigned int by, int width = 32) {
  return shuffled(site, mask, value, lane_up(by, width));
}
template <typename T>
T shfl_down(const Site& site, unsigned int mask, T value, unsigned int by, int width = 32) {
  return shuffled(site, mask, value, lane_down(by, width));
}
template <typename T>
T shfl_xor(const Site& site, unsigned int mask, T value, int bits, int width = 32) {
  return shuffled(site, mask, value, lane_xor(bits, width));
}

}  // namespace emulator

// -- memory ------------------------------------------------------------------------------------

// Real atomics, so that a race detector tells them from plain accesses. As in CUDA they order
// nothing by themselves; after __threadfence they do.
#define FUSER_ORDER (emulator::fenced() ? __ATOMIC_ACQ_REL : __ATOMIC_RELAXED)

namespace emulator {

template <typename T, typename Update>
T update(T* at, Update next) {
  T old;
  __atomic_load(at, &old, __ATOMIC_RELAXED);
  for (;;) {
    T wanted = next(old);
    const bool done = fenced() ? __atomic_compare_exchange(at, &old, &wanted, false,
                                                           __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
                               : __atomic_compare_exchange(at, &old, &wanted, false,
                                                           __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    if (done) return old;
  }
}

// A parameter that takes what converts to T, as CUDA's overloads do: atomicAdd(&unsigned_, 1).
template <typename T>
struct Same {
  using type = T;
};
template <typename T>
using as = typename Same<T>::type;

}  // namespace emulator

template <typename T>
T atomicAdd(T* at, emulator::as<T> value) {
  return emulator::update(at, [=](T old) { return static_cast<T>(old + value); });
}
template <typename T>
T atomicExch(T* at, emulator::as<T> value) {
  return emulator::update(at, [=](T) { return value; });
}
template <typename T>
T atomicCAS(T* at, emulator::as<T> expected, emulator::as<T> value) {
  return emulator::update(at, [=](T old) { return old == expected ? value : old; });
}

inline void __threadfence() { emulator::fence(); }

template <typename T>
T __ldcg(const T* at) { return *at; }

namespace emulator {

// Here, so that sanitizers watch these accesses of the kernel.
inline void make_copies() {
  for (Copy copy; next_copy(copy);) {
    if (copy.bytes == 16) {
      __builtin_memcpy(copy.to, copy.from, 16);
    } else if (copy.bytes == 8) {
      __builtin_memcpy(copy.to, copy.from, 8);
    } else {
      __builtin_memcpy(copy.to, copy.from, 4);
    }
  }
}

}  // namespace emulator

#include "cuda_math.h"

// -- entry -------------------------------------------------------------------------------------

extern "C" char __start_fuser_shared[], __stop_fuser_shared[];

namespace emulator {

alignas(64) __attribute__((section("fuser_shared"), used)) static char keep_section[64];

template <int... I>
struct Indices {};
template <int N, int... I>
struct Count : Count<N - 1, N - 1, I...> {};
template <int... I>
struct Count<0, I...> {
  using type = Indices<I...>;
};

template <typename... A, int... I>
void call(void (*kernel)(A...), void** arguments, Indices<I...>) {
  kernel(*static_cast<A*>(arguments[I])...);
}

template <typename... A>
void call(void (*kernel)(A...), void** arguments) {
  call(kernel, arguments, typename Count<sizeof...(A)>::type());
}

template <typename... A>
struct Parameters {
  static constexpr unsigned int bytes[] = {sizeof...(A), sizeof(A)...};
};
template <typename... A>
Parameters<A...> parameters(void (*)(A...));

}  // namespace emulator

#define FUSER_EMULATOR_ENTRY(kernel)                                                      \
  static void fuser_emulator_run(void** arguments) { emulator::call(kernel, arguments); } \
  extern "C" __attribute__((visibility("default")))                                       \
  const emulator::Kernel fuser_emulator_kernel{                                           \
      #kernel, fuser_emulator_run, __start_fuser_shared, __stop_fuser_shared,             \
      decltype(emulator::parameters(kernel))::bytes};
