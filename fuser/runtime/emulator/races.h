// What a race detector is told of the emulated threads. Without one, nothing is told.
#pragma once

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "context.h"
#include "fibers.h"

namespace emulator::races {

#if defined(FUSER_TSAN)

// Where the members of a meeting are seen to meet. Two points in turn: one that is slow to leave
// must not meet those that already are at the next meeting.
struct Point {
  unsigned int mask, meetings;
  char in_turn[2];
};
constexpr unsigned int max_groups = 2 * (1024 / 32) + 1;  // warps, the block, teams by their first
constexpr unsigned int max_masks = 64;              // different masks in one warp
using Points = Point[max_groups][max_masks];

// What a thread did is known for as long as its fiber is kept. Each takes almost a megabyte.
constexpr unsigned int kept_fibers = 2048;

inline Points* points;
inline Point cluster;
inline void* fibers[kept_fibers];
inline unsigned long fibers_made;
inline char end;

// The members of `mask` in a group; the block's mask is 0. Null if there are too many masks.
inline Point* point_of(unsigned int group, unsigned int mask) {
  for (Point& point : (*points)[group]) {
    if (point.mask == 0 && mask != 0) point.mask = mask;
    if (point.mask == mask) return &point;
  }
  return nullptr;
}

inline char* arrive(Point* point, bool orders_memory) {
  char* at = &point->in_turn[point->meetings % 2];
  if (orders_memory) __tsan_release(at);
  return at;
}

inline void leave(char* at, bool orders_memory) {
  if (orders_memory) __tsan_acquire(at);
}

inline void met(Point* point) { ++point->meetings; }

inline void thread_ends() { __tsan_release(&end); }
inline void launch_ends() { __tsan_acquire(&end); }
inline void launch_begins(Context& scheduler) { scheduler.fiber = __tsan_get_current_fiber(); }

inline void begin(Context& context, unsigned int thread) {
  void*& fiber = fibers[fibers_made++ % kept_fibers];
  if (fiber != nullptr) __tsan_destroy_fiber(fiber);
  fiber = __tsan_create_fiber(0);
  char name[60];
  snprintf(name, sizeof name, "block (%u, %u, %u) thread %u", blockIdx.x, blockIdx.y, blockIdx.z,
           thread);
  __tsan_set_fiber_name(fiber, name);
  context.fiber = fiber;
}

// Memory that no accesses are known of; free() would count as an access by itself.
inline void* renewed(void* old, size_t bytes) {
  if (old != nullptr) munmap(old, bytes);
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

// Shared memory and meetings are new ones for every block: those of the last block are forgotten.
inline char* block_begins(const Kernel& kernel, char* dynamic_shared, size_t bytes) {
  static bool known = false;
  points = static_cast<Points*>(renewed(points, sizeof *points));
  const unsigned long begin = reinterpret_cast<unsigned long>(kernel.shared_begin);
  const unsigned long size = (kernel.shared_end - kernel.shared_begin + 7) / 8 * 8;
  if (known) {
    __tsan_java_free(begin, size);
  } else {
    __tsan_java_init(begin, size);
  }
  __tsan_java_alloc(begin, size);
  known = true;
  return static_cast<char*>(renewed(dynamic_shared, bytes + 1));
}

// Another block of the cluster comes to the same addresses, once those before it have met.
inline void shared_changes(const Kernel& kernel) {
  const unsigned long begin = reinterpret_cast<unsigned long>(kernel.shared_begin);
  const unsigned long size = (kernel.shared_end - kernel.shared_begin + 7) / 8 * 8;
  __tsan_java_free(begin, size);
  __tsan_java_alloc(begin, size);
}

inline void drop_shared(char*) {}  // the program ends with its one launch

#else

struct Point {};
inline Point cluster;

inline Point* point_of(unsigned int, unsigned int) {
  static Point everywhere;
  return &everywhere;
}
inline char* arrive(Point*, bool) { return nullptr; }
inline void leave(char*, bool) {}
inline void met(Point*) {}
inline void thread_ends() {}
inline void launch_ends() {}
inline void launch_begins(Context&) {}
inline void begin(Context&, unsigned int) {}
inline char* block_begins(const Kernel&, char* dynamic_shared, size_t bytes) {
  return dynamic_shared != nullptr ? dynamic_shared : static_cast<char*>(malloc(bytes));
}
inline void shared_changes(const Kernel&) {}
inline void drop_shared(char* dynamic_shared) { free(dynamic_shared); }

#endif

}  // namespace emulator::races
