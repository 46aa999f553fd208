// The scheduler of fibers: which CUDA thread runs, who waits where, and how they meet.
#include "fibers.h"

#include <stdio.h>
#include <string.h>

#include "context.h"
#include "races.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulator {
namespace {

constexpr unsigned int max_threads = 1024;
constexpr unsigned int warp = 32;

enum State { ready, waiting, passing, done };  // passing: ready, once nobody else is

// After so many turns in which all that could run passed, they pass for ever.
constexpr unsigned int max_passes = 10000;
constexpr unsigned int block_mask = 0;  // the members of a meeting: the block, or lanes of a warp

struct Thread {
  Context context;
  State state;
  bool fenced;
  uint3 index;
  const Site* site;  // where it waits
  unsigned int mask;
  unsigned int source;  // the lane a shuffle reads; `warp` where there is none
  Fold fold;
  Word value, result;
};

Thread threads[max_threads];
Stacks stacks(max_threads);
Context scheduler;
Thread* current;
const Kernel* kernel;
const Launch* launched;
void** arguments;
unsigned int live, at_barrier, thread_count, passes;
const Site* barrier;  // where the first thread of the block waits
char* shared_memory;
Status status;
char* message;
unsigned long message_size;
bool same(const Site& a, const Site& b) {
  return a.line == b.line && strcmp(a.operation, b.operation) == 0;
}

unsigned int number_of(const Thread& thread) {
  return static_cast<unsigned int>(&thread - threads);
}

Thread* warp_of(const Thread& thread) { return threads + number_of(thread) / warp * warp; }

bool exists(const Thread* first, unsigned int lane) {
  return first + lane < threads + thread_count;
}

// -- switching -------------------------------------------------------------------------------

void run(Thread& thread) {
  current = &thread;
  threadIdx = thread.index;
  leaving(thread.context);
  switch_registers(scheduler.registers, thread.context.registers);
  arrived(nullptr);
}

void yield_to_scheduler() {
  Thread& thread = *current;
  leaving(scheduler);
  switch_registers(thread.context.registers, scheduler.registers);
  arrived(&scheduler);
}

// -- meeting ---------------------------------------------------------------------------------

void complain(Status what, const char* text) {
  if (status != finished) return;
  status = what;
  snprintf(message, message_size, "%s", text);
  races::thread_ends();
}

races::Point* point_of(const Thread& thread, unsigned int mask) {
  const unsigned int group = mask == block_mask ? max_threads / warp : number_of(thread) / warp;
  races::Point* point = races::point_of(group, mask);
  if (point == nullptr) fail(thread.site->operation, thread.site->line, "too many masks to watch");
  return point;
}

void release(Thread* first, unsigned int count, unsigned int mask) {
  races::met(point_of(*first, mask));
  for (unsigned int lane = 0; lane < count; ++lane) {
    if (mask != block_mask && !(mask >> lane & 1)) continue;
    if (first[lane].state == waiting) first[lane].state = ready;
  }
}

// Lets the block go on if every live thread waits at one barrier.
bool block_met() {
  if (live == 0 || at_barrier != live) return false;
  Word folded = 0;
  bool any = false;
  for (unsigned int i = 0; i < thread_count; ++i) {
    Thread& thread = threads[i];
    if (thread.state != waiting) continue;
    if (thread.mask != block_mask || !same(*thread.site, *barrier)) return false;
    if (thread.fold != nullptr) folded = any ? thread.fold(folded, thread.value) : thread.value;
    any = true;
  }
  for (unsigned int i = 0; i < thread_count; ++i) threads[i].result = folded;
  at_barrier = 0;
  barrier = nullptr;
  release(threads, thread_count, block_mask);
  return true;
}

// Lets the lanes of a mask go on if all that live wait at one operation.
bool lanes_met(const Thread& member) {
  Thread* first = warp_of(member);
  Word folded = 0;
  bool any = false;
  for (unsigned int lane = 0; lane < warp; ++lane) {
    if (!(member.mask >> lane & 1) || !exists(first, lane)) continue;
    Thread& other = first[lane];
    if (other.state == done) continue;
    if (other.state != waiting || other.mask != member.mask) return false;
    if (!same(*other.site, *member.site)) return false;
    if (other.fold != nullptr) folded = any ? other.fold(folded, other.value) : other.value;
    any = true;
  }
  const unsigned int mask = member.mask;
  for (unsigned int lane = 0; lane < warp; ++lane) {
    if (!(mask >> lane & 1) || !exists(first, lane) || first[lane].state != waiting) continue;
    Thread& other = first[lane];
    other.result = folded;
    if (other.source == warp) continue;
    const Thread& from = first[other.source];
    const bool there = exists(first, other.source) && mask >> other.source & 1;
    if (!there || from.state == done) {
      char text[200];
      snprintf(text, sizeof text, "line %d: %s: thread %u reads lane %u, which takes no part",
               other.site->line, other.site->operation, number_of(other), other.source);
      complain(failed, text);
      return false;
    }
    other.result = from.value;
  }
  release(first, warp, mask);
  return true;
}

Word wait(const Site& site, unsigned int mask, Word value, Fold fold, unsigned int source) {
  Thread& thread = *current;
  thread.site = &site;
  thread.mask = mask;
  thread.value = value;
  thread.fold = fold;
  thread.source = source;
  thread.state = waiting;
  passes = 0;
  char* point = races::arrive(point_of(thread, mask), site.orders_memory);
  bool met;
  if (mask == block_mask) {
    if (barrier == nullptr) barrier = &site;
    ++at_barrier;
    met = block_met();
  } else {
    met = lanes_met(thread);
  }
  if (!met || !(launched->order & run_ahead)) yield_to_scheduler();
  races::leave(point, site.orders_memory);
  return thread.result;
}

// -- running ---------------------------------------------------------------------------------

void thread_main() {
  arrived(&scheduler);
  kernel->run(arguments);
  races::thread_ends();
  Thread& thread = *current;
  thread.state = done;
  --live;
  passes = 0;
#if defined(FUSER_ASAN)
  // The fiber ends here: its fake stack goes.
  __sanitizer_start_switch_fiber(nullptr, scheduler.native_stack, scheduler.native_bytes);
  switch_registers(thread.context.registers, scheduler.registers);
#else
  yield_to_scheduler();
#endif
  __builtin_trap();
}

Thread* next_in(State state) {
  const bool reverse = launched->order & reversed;
  for (unsigned int i = 0; i < thread_count; ++i) {
    Thread& thread = threads[reverse ? thread_count - 1 - i : i];
    if (thread.state == state) return &thread;
  }
  return nullptr;
}

// The thread to run; null if none can, or those that can only pass.
Thread* next_thread() {
  Thread* thread = next_in(ready);
  if (thread != nullptr || ++passes > max_passes) return thread;
  for (unsigned int i = 0; i < thread_count; ++i) {
    if (threads[i].state == passing) threads[i].state = ready;
  }
  return next_in(ready);
}

// An exit may be what the others waited for.
void check_meetings_after_exit(const Thread& gone) {
  block_met();
  Thread* first = warp_of(gone);
  for (unsigned int lane = 0; lane < warp && exists(first, lane); ++lane) {
    if (first[lane].state == waiting && first[lane].mask != block_mask) lanes_met(first[lane]);
  }
}

void report_deadlock() {
  char text[1500];
  int used = snprintf(text, sizeof text, "block (%u, %u, %u):", blockIdx.x, blockIdx.y, blockIdx.z);
  for (unsigned int i = 0; i < thread_count && used < 1300;) {
    unsigned int end = i + 1;
    const Thread& thread = threads[i];
    while (end < thread_count && threads[end].state == thread.state &&
           (thread.state == done || same(*threads[end].site, *thread.site))) {
      ++end;
    }
    const char* separator = i == 0 ? " " : "; ";
    if (thread.state == done) {
      used += snprintf(text + used, sizeof text - used, "%sthreads %u-%u have ended", separator, i,
                       end - 1);
    } else {
      used += snprintf(text + used, sizeof text - used, "%sthreads %u-%u wait at %s, line %d",
                       separator, i, end - 1, thread.site->operation, thread.site->line);
    }
    i = end;
  }
  complain(deadlock, text);
}

__attribute__((no_sanitize("address", "thread"))) void poison(char* begin, char* end) {
  for (volatile char* at = begin; at < end; ++at) *at = static_cast<char>(0xff);
}

void run_block() {
  shared_memory = races::block_begins(*kernel, shared_memory, launched->shared_bytes);
  poison(kernel->shared_begin, kernel->shared_end);
  poison(shared_memory, shared_memory + launched->shared_bytes);
  live = thread_count;
  at_barrier = passes = 0;
  barrier = nullptr;
  stacks.renew();
  for (unsigned int i = 0; i < thread_count; ++i) {
    Thread& thread = threads[i];
    stacks.prepare(thread.context, i, thread_main);
    thread.state = ready;
    thread.fenced = false;
    thread.index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
    races::begin(thread.context, i);
  }
  while (live > 0 && status == finished) {
    Thread* thread = next_thread();
    if (thread == nullptr) {
      report_deadlock();
      break;
    }
    run(*thread);
    if (thread->state == done) check_meetings_after_exit(*thread);
  }
}

void check_mask(const Site& site, unsigned int mask) {
  if (mask >> lane() & 1) return;
  fail(site.operation, site.line, "the calling lane is not in its own mask");
}

}  // namespace

Word meet_block(const Site& site, Word value, Fold fold) {
  return wait(site, block_mask, value, fold, warp);
}

Word meet(const Site& site, unsigned int mask, Word value, Fold fold) {
  check_mask(site, mask);
  return wait(site, mask, value, fold, warp);
}

Word shuffle(const Site& site, unsigned int mask, Word value, unsigned int source) {
  check_mask(site, mask);
  return wait(site, mask, value, nullptr, source);
}

unsigned int lane() { return number_of(*current) % warp; }

unsigned int active_mask() {
  unsigned int mask = 0;
  const Thread* first = warp_of(*current);
  for (unsigned int i = 0; i < warp && exists(first, i); ++i) {
    if (first[i].state != done) mask |= 1u << i;
  }
  return mask;
}

void pass(const Site& site) {
  current->site = &site;
  current->state = passing;
  yield_to_scheduler();
}

void fence() { current->fenced = true; }

bool fenced() { return current->fenced; }

void* dynamic_shared() { return shared_memory; }

void fail(const char* operation, int line, const char* reason) {
  char text[300];
  snprintf(text, sizeof text, "line %d: %s: %s", line, operation, reason);
  complain(failed, text);
  for (;;) yield_to_scheduler();
}

}  // namespace emulator

extern "C" int fuser_emulator_launch(const emulator::Kernel* kernel, const emulator::Launch* launch,
                                     void** arguments, char* message, unsigned long size) {
  using namespace emulator;
  emulator::kernel = kernel;
  emulator::arguments = arguments;
  emulator::message = message;
  launched = launch;
  message_size = size;
  status = finished;
  gridDim = dim3(launch->grid[0], launch->grid[1], launch->grid[2]);
  blockDim = dim3(launch->block[0], launch->block[1], launch->block[2]);
  thread_count = blockDim.x * blockDim.y * blockDim.z;
  shared_memory = nullptr;
  races::launch_begins(scheduler);
  for (unsigned int z = 0; z < gridDim.z && status == finished; ++z) {
    for (unsigned int y = 0; y < gridDim.y && status == finished; ++y) {
      for (unsigned int x = 0; x < gridDim.x && status == finished; ++x) {
        blockIdx = {x, y, z};
        run_block();
      }
    }
  }
  races::launch_ends();
  races::drop_shared(shared_memory);
  return status;
}
