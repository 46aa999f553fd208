// The scheduler of fibers: which CUDA thread runs, who waits where, and how they meet.
#include "fibers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "races.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulator {
namespace {

constexpr unsigned int max_threads = 1024;
constexpr unsigned int max_cluster = 16;
constexpr unsigned int warp = 32;
constexpr unsigned int max_barriers = 16;
constexpr unsigned long max_static_bytes = (48 << 10) + 128;  // and what keeps the section
constexpr unsigned long max_shared_bytes = 227 << 10;

// passing: ready, once nobody else is. teamed: waits for its team. gathered: for the cluster.
// awaiting: for bytes that a barrier in shared memory expects.
enum State { ready, waiting, passing, teamed, gathered, awaiting, done };

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
  unsigned int team;  // how many threads its team has, while it is teamed
  const void* awaited;  // the barrier, while it is awaiting
  bool phase;           // and the parity of its phase
  Copy* copies;         // those on their way, and how many there are, and have room
  unsigned int begun, room;
};

// A barrier in static shared memory, for which other blocks of the cluster have bytes.
struct Barrier {
  unsigned short opened;
  bool phase, arrived;
  int missing;  // bytes, below zero if more have come than are expected yet
};
static_assert(sizeof(Barrier) == sizeof(Word), "a word of shared memory");
constexpr unsigned short is_open = 0xba44;

// A block of the cluster that runs. `shared` has its static shared memory while another runs.
struct Block {
  uint3 index;
  Thread* threads;
  unsigned int live, at_barrier, at_cluster, teamed;  // threads, and those that wait for others
  unsigned int first;  // before this turn, no thread is ready
  const Site* barrier;  // where the first thread of the block waits
  bool started;
  bool stuck;  // none of its threads can run before those of other blocks did
  char *shared, *dynamic;
};

Thread threads[max_cluster * max_threads];
Block blocks[max_cluster];
Stacks stacks;
Context scheduler;
Thread* current;
Block* block;  // of the current thread
const Kernel* kernel;
const Launch* launched;
void** arguments;
unsigned int thread_count, passes;
Status status;
char* message;
unsigned long message_size;
bool same(const Site& a, const Site& b) {
  return &a == &b || (a.line == b.line && strcmp(a.operation, b.operation) == 0);
}

unsigned int number_of(const Thread& thread) {
  return static_cast<unsigned int>(&thread - block->threads);
}

Thread* warp_of(const Thread& thread) { return block->threads + number_of(thread) / warp * warp; }

bool exists(const Thread* first, unsigned int lane) {
  return first + lane < block->threads + thread_count;
}

// The number of the thread whose turn it is, of those of a block.
unsigned int at_turn(unsigned int turn) {
  return launched->order & reversed ? thread_count - 1 - turn : turn;
}

void wake(Thread& thread) {
  thread.state = ready;
  Block& owner = blocks[(&thread - threads) / max_threads];
  const unsigned int turn = at_turn(static_cast<unsigned int>(&thread - owner.threads));
  if (turn < owner.first) owner.first = turn;
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

races::Point* team_point(const Thread& thread) {
  const unsigned int first = number_of(thread) / thread.team * thread.team;
  races::Point* point = races::point_of(max_threads / warp + 1 + first / warp, thread.team);
  if (point == nullptr) fail(thread.site->operation, thread.site->line, "too many teams to watch");
  return point;
}

void release(Thread* first, unsigned int count, unsigned int mask) {
  races::met(point_of(*first, mask));
  for (unsigned int lane = 0; lane < count; ++lane) {
    if (mask != block_mask && !(mask >> lane & 1)) continue;
    if (first[lane].state == waiting) wake(first[lane]);
  }
}

// Lets the block go on if every live thread waits at one barrier.
bool block_met() {
  if (block->live == 0 || block->at_barrier != block->live) return false;
  for (unsigned int i = 0; i < thread_count; ++i) {
    const Thread& thread = block->threads[i];
    if (thread.state != waiting) continue;
    if (thread.mask != block_mask || !same(*thread.site, *block->barrier)) return false;
  }
  block->at_barrier = 0;
  block->barrier = nullptr;
  release(block->threads, thread_count, block_mask);
  return true;
}

// Lets a team go on if all its threads wait at one barrier. It counts those that come: of a thread
// that has ended, a barrier of the whole block knows, but not one that is told how many there are.
bool team_met(const Thread& member) {
  const unsigned int team = member.team, first = number_of(member) / team * team;
  for (unsigned int i = first; i < first + team; ++i) {
    const Thread& other = block->threads[i];
    if (other.state != teamed || other.team != team || !same(*other.site, *member.site)) {
      return false;
    }
  }
  for (unsigned int i = first; i < first + team; ++i) {
    wake(block->threads[i]);
    --block->teamed;
  }
  races::met(team_point(member));
  return true;
}

// Lets the cluster go on if every live thread of it waits at one place.
bool cluster_met() {
  for (const Block& each : blocks) {
    if (each.at_cluster < each.live) return false;
  }
  const Site* site = nullptr;
  for (unsigned int i = 0; i < launched->cluster * max_threads; ++i) {
    if (i % max_threads >= thread_count || threads[i].state == done) continue;
    if (site != nullptr && !same(*threads[i].site, *site)) return false;
    site = threads[i].site;
  }
  if (site == nullptr) return false;
  for (Thread& thread : threads) {
    if (thread.state == gathered) wake(thread);
  }
  for (Block& each : blocks) {
    each.at_cluster = 0;
    each.stuck = false;
  }
  races::met(&races::cluster);
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
    if (block->barrier == nullptr) block->barrier = &site;
    ++block->at_barrier;
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
  --block->live;
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

// The first thread in the launch's order that is ready; null if none is.
Thread* first_ready() {
  for (unsigned int& turn = block->first; turn < thread_count; ++turn) {
    Thread& thread = block->threads[at_turn(turn)];
    if (thread.state == ready) return &thread;
  }
  return nullptr;
}

// The thread to run; null if none can, or those that can only pass.
Thread* next_thread() {
  Thread* thread = first_ready();
  if (thread != nullptr || ++passes > max_passes) return thread;
  for (unsigned int i = 0; i < thread_count; ++i) {
    if (block->threads[i].state == passing) wake(block->threads[i]);
  }
  return first_ready();
}

// An exit may be what the others waited for.
void check_meetings_after_exit(const Thread& gone) {
  block_met();
  cluster_met();
  Thread* first = warp_of(gone);
  for (unsigned int lane = 0; lane < warp && exists(first, lane); ++lane) {
    if (first[lane].state == waiting && first[lane].mask != block_mask) lanes_met(first[lane]);
  }
}

// What the threads of a block wait for, as text.
int describe(const Block& which, char* text, int size) {
  const uint3 at = which.index;
  int used = snprintf(text, size, "block (%u, %u, %u):", at.x, at.y, at.z);
  for (unsigned int i = 0; i < thread_count && used < size - 200;) {
    unsigned int end = i + 1;
    const Thread& thread = which.threads[i];
    while (end < thread_count && which.threads[end].state == thread.state &&
           (thread.state == done || same(*which.threads[end].site, *thread.site))) {
      ++end;
    }
    const char* separator = i == 0 ? " " : "; ";
    if (thread.state == done) {
      used += snprintf(text + used, size - used, "%sthreads %u-%u have ended", separator, i,
                       end - 1);
    } else {
      used += snprintf(text + used, size - used, "%sthreads %u-%u wait at %s, line %d",
                       separator, i, end - 1, thread.site->operation, thread.site->line);
    }
    i = end;
  }
  return used;
}

void report_deadlock() {
  char text[1500];
  int used = 0;
  for (unsigned int i = 0; i < launched->cluster && used < 1000; ++i) {
    if (i > 0) used += snprintf(text + used, sizeof text - used, "\n");
    used += describe(blocks[i], text + used, static_cast<int>(sizeof text) - used);
  }
  complain(deadlock, text);
}

__attribute__((no_sanitize("address", "thread"))) void poison(char* begin, char* end) {
  for (volatile char* at = begin; at < end; ++at) *at = static_cast<char>(0xff);
}

// Not memcpy, which sanitizers watch.
__attribute__((no_sanitize("address", "thread"))) void copy(char* to, const char* from,
                                                            size_t bytes) {
  volatile char* at = to;
  for (size_t i = 0; i < bytes; ++i) at[i] = from[i];
}

// Makes a block of the cluster the one that runs: static shared memory is at one address for all.
void enter(Block& other) {
  const size_t bytes = kernel->shared_end - kernel->shared_begin;
  if (launched->cluster > 1) {
    if (block != nullptr) copy(block->shared, kernel->shared_begin, bytes);
    races::shared_changes(*kernel);
    copy(kernel->shared_begin, other.shared, bytes);
  }
  block = &other;
  blockIdx = other.index;
  passes = 0;
}

void begin(Block& starting, unsigned int number) {
  const size_t bytes = kernel->shared_end - kernel->shared_begin;
  starting.threads = threads + number * max_threads;
  starting.dynamic = races::block_begins(*kernel, starting.dynamic, launched->shared_bytes);
  poison(starting.dynamic, starting.dynamic + launched->shared_bytes);
  if (launched->cluster > 1) {
    if (starting.shared == nullptr) starting.shared = static_cast<char*>(malloc(bytes));
    poison(starting.shared, starting.shared + bytes);
  } else {
    poison(kernel->shared_begin, kernel->shared_end);
  }
  starting.live = thread_count;
  starting.at_barrier = starting.at_cluster = starting.teamed = starting.first = 0;
  starting.barrier = nullptr;
  starting.started = starting.stuck = false;
  blockIdx = starting.index;
  for (unsigned int i = 0; i < thread_count; ++i) {
    Thread& thread = starting.threads[i];
    stacks.prepare(thread.context, number * thread_count + i, thread_main);
    thread.state = ready;
    thread.fenced = false;
    thread.begun = 0;
    thread.index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
    races::begin(thread.context, i);
  }
}

// The next block of the cluster that has something to do; null if none has.
Block* next_block() {
  const bool reverse = launched->order & reversed;
  for (unsigned int i = 0; i < launched->cluster; ++i) {
    Block& other = blocks[reverse ? launched->cluster - 1 - i : i];
    if (other.live > 0 && !other.stuck) return &other;
  }
  return nullptr;
}

// The blocks from (x, y, z) on that make a cluster.
void run_cluster(unsigned int x, unsigned int y, unsigned int z) {
  stacks.renew(launched->cluster * thread_count);
  for (unsigned int i = 0; i < launched->cluster; ++i) {
    blocks[i].index = {x, y + i, z};
    begin(blocks[i], i);
  }
  block = nullptr;
  while (status == finished) {
    if (block == nullptr || block->live == 0 || block->stuck) {
      Block* next = next_block();
      if (next == nullptr) break;
      enter(*next);
    }
    Thread* thread = next_thread();
    if (thread == nullptr) {
      block->stuck = true;
      continue;
    }
    block->started = true;
    run(*thread);
    if (thread->state == done) check_meetings_after_exit(*thread);
  }
  for (unsigned int i = 0; i < launched->cluster; ++i) {
    if (status == finished && blocks[i].live > 0) report_deadlock();
  }
}

// -- words that blocks of a cluster send each other --------------------------------------------

// An address in the running block's static shared memory.
char* static_shared(const Site& site, void* at) {
  char* place = static_cast<char*>(at);
  const bool inside = place >= kernel->shared_begin && place + sizeof(Word) <= kernel->shared_end;
  if (!inside) fail(site.operation, site.line, "the address is not in static shared memory");
  return place;
}

// Where another block, or this one, has what is at such an address.
char* place_in(Block& other, void* at) {
  char* place = static_cast<char*>(at);
  return &other == block ? place : other.shared + (place - kernel->shared_begin);
}

Barrier barrier_at(const Site& site, const char* place) {
  Barrier barrier;
  copy(reinterpret_cast<char*>(&barrier), place, sizeof barrier);
  if (barrier.opened != is_open) fail(site.operation, site.line, "the barrier is not open");
  return barrier;
}

// A barrier of a block changes; if that ends its phase, those who wait for it go on.
void change(Block& owner, const void* barrier, char* place, Barrier held) {
  const bool ended = held.arrived && held.missing == 0;
  if (ended) {
    held.phase = !held.phase;
    held.arrived = false;
    owner.stuck = false;
  }
  copy(place, reinterpret_cast<const char*>(&held), sizeof held);
  for (unsigned int i = 0; ended && i < thread_count; ++i) {
    Thread& thread = owner.threads[i];
    const bool waits = thread.state == awaiting && thread.awaited == barrier;
    if (waits && thread.phase != held.phase) wake(thread);
  }
}

void check_mask(const Site& site, unsigned int mask) {
  if (mask >> lane() & 1) return;
  fail(site.operation, site.line, "the calling lane is not in its own mask");
}

}  // namespace

void meet_block(const Site& site) { wait(site, block_mask, 0, nullptr, warp); }

Word meet(const Site& site, unsigned int mask, Word value, Fold fold) {
  check_mask(site, mask);
  return wait(site, mask, value, fold, warp);
}

Word shuffle(const Site& site, unsigned int mask, Word value, unsigned int source) {
  check_mask(site, mask);
  return wait(site, mask, value, nullptr, source);
}

void meet_team(const Site& site, unsigned int threads) {
  Thread& thread = *current;
  const unsigned int team = number_of(thread) / threads;
  if (threads % warp != 0 || (team + 1) * threads > thread_count) {
    fail(site.operation, site.line, "a team is whole warps, all of them of the block");
  }
  if (team + 1 >= max_barriers) {
    fail(site.operation, site.line, "a block has 16 barriers, one of which is its own");
  }
  thread.site = &site;
  thread.team = threads;
  thread.state = teamed;
  ++block->teamed;
  passes = 0;
  char* point = races::arrive(team_point(thread), site.orders_memory);
  if (!team_met(thread) || !(launched->order & run_ahead)) yield_to_scheduler();
  races::leave(point, site.orders_memory);
}

void meet_cluster(const Site& site) {
  Thread& thread = *current;
  thread.site = &site;
  thread.state = gathered;
  passes = 0;
  ++block->at_cluster;
  char* point = races::arrive(&races::cluster, site.orders_memory);
  if (!cluster_met() || !(launched->order & run_ahead)) yield_to_scheduler();
  races::leave(point, site.orders_memory);
}

void open_barrier(const Site& site, void* barrier) {
  const Barrier open = {is_open, false, false, 0};
  copy(static_shared(site, barrier), reinterpret_cast<const char*>(&open), sizeof open);
}

void expect_bytes(const Site& site, void* barrier, int bytes) {
  Barrier held = barrier_at(site, static_shared(site, barrier));
  if (held.arrived) fail(site.operation, site.line, "the phase has all that may arrive");
  held.arrived = true;
  held.missing += bytes;
  change(*block, barrier, static_cast<char*>(barrier), held);
}

void await_bytes(const Site& site, void* barrier, bool phase) {
  Thread& thread = *current;
  thread.site = &site;
  thread.awaited = barrier;
  thread.phase = phase;
  passes = 0;
  const bool ended = barrier_at(site, static_shared(site, barrier)).phase != phase;
  if (ended && launched->order & run_ahead) return;
  thread.state = ended ? ready : awaiting;
  yield_to_scheduler();
}

void send_across(const Site& site, void* to, Word value, void* barrier, unsigned int rank) {
  static_shared(site, to);
  static_shared(site, barrier);
  if (rank >= launched->cluster) fail(site.operation, site.line, "no such block in the cluster");
  Block& other = blocks[rank];
  if (!other.started) fail(site.operation, site.line, "the other block may not have begun");
  if (other.live == 0) fail(site.operation, site.line, "the other block may have ended");
  copy(place_in(other, to), reinterpret_cast<const char*>(&value), sizeof value);
  Barrier held = barrier_at(site, place_in(other, barrier));
  held.missing -= static_cast<int>(sizeof value);
  change(other, barrier, place_in(other, barrier), held);
}

void copy_later(const Site& site, const Copy& copy) {
  const auto to = reinterpret_cast<unsigned long>(copy.to);
  const auto from = reinterpret_cast<unsigned long>(copy.from);
  if (copy.bytes != 4 && copy.bytes != 8 && copy.bytes != 16) {
    fail(site.operation, site.line, "a copy is of 4, 8 or 16 bytes");
  }
  if ((to | from) % copy.bytes != 0) {
    fail(site.operation, site.line, "a copy from or to where its bytes are not aligned");
  }
  Thread& thread = *current;
  if (thread.begun == thread.room) {
    thread.room = 2 * thread.room + 16;
    thread.copies = static_cast<Copy*>(realloc(thread.copies, thread.room * sizeof(Copy)));
  }
  thread.copies[thread.begun++] = copy;
}

bool next_copy(Copy& copy) {
  if (current->begun == 0) return false;
  copy = current->copies[--current->begun];
  return true;
}

unsigned int lane() { return number_of(*current) % warp; }

void pass(const Site& site) {
  current->site = &site;
  current->state = passing;
  yield_to_scheduler();
}

void fence() { current->fenced = true; }

bool fenced() { return current->fenced; }

void* dynamic_shared() { return block->dynamic; }

void fail(const char* operation, int line, const char* reason) {
  char text[300];
  snprintf(text, sizeof text, "line %d: %s: %s", line, operation, reason);
  complain(failed, text);
  for (;;) yield_to_scheduler();
}

}  // namespace emulator

#if !defined(FUSER_ASAN) && !defined(FUSER_TSAN)
// What kernels call before an access that is not aligned as its type is: `-fsanitize=alignment`
// without a sanitizer's library. A GPU ends the launch there, and all that its context does later.
struct MisalignedAccess {
  const char* file;
  unsigned int line, column;
  const void* type;
  unsigned char log_alignment, kind;
};
extern "C" void __ubsan_handle_type_mismatch_v1(const MisalignedAccess* access, unsigned long at) {
  char text[80];
  snprintf(text, sizeof text, "an access %lu bytes past a multiple of the %u it is aligned to",
           at % (1ul << access->log_alignment), 1u << access->log_alignment);
  emulator::fail("memory", static_cast<int>(access->line), text);
}
#endif

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
  const unsigned long declared = kernel->shared_end - kernel->shared_begin;
  if (declared > max_static_bytes || declared + launch->shared_bytes > max_shared_bytes) {
    snprintf(message, size, "%lu bytes of shared memory in the text, and %u more", declared,
             launch->shared_bytes);
    return failed;
  }
  races::launch_begins(scheduler);
  // Blocks run in no order: what needs one takes its number when it begins.
  const unsigned int parts = gridDim.y / launch->cluster;
  const unsigned long clusters = 1ul * gridDim.x * parts * gridDim.z;
  for (unsigned long i = 0; i < clusters && status == finished; ++i) {
    const unsigned long at = launch->order & reversed ? clusters - 1 - i : i;
    const unsigned long row = at / gridDim.x;
    run_cluster(at % gridDim.x, row % parts * launch->cluster, row / parts);
  }
  races::launch_ends();
  for (Block& each : blocks) {
    each.live = 0;
    races::drop_shared(each.dynamic);
    free(each.shared);
    each.shared = each.dynamic = nullptr;
  }
  return status;
}
