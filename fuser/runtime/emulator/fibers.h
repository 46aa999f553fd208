// The emulator's runtime: one fiber per CUDA thread, one block at a time, or those of a cluster in
// turn, from where they meet, or wait for each other, to where they do so next.
//
// The kernel's text sees this through cuda_emulator.h; the launcher through fuser_emulator_launch.
#pragma once

struct uint3 {
  unsigned int x, y, z;
};

struct dim3 {
  unsigned int x, y, z;
  dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
};

// Of the running CUDA thread: the runtime rewrites them at every switch.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace emulator {

// A compiled kernel: the call that unpacks its arguments, and its static shared memory.
struct Kernel {
  const char* name;
  void (*run)(void** arguments);
  char *shared_begin, *shared_end;
  const unsigned int* parameters;  // their number, then the bytes of each
};

// Bit 0: a released thread runs on before the others. Bit 1: the highest index first.
enum Order { ascending = 0, run_ahead = 1, reversed = 2 };

struct Launch {
  unsigned int grid[3], block[3];
  unsigned int shared_bytes;
  int order;
  unsigned int cluster;  // blocks along y that see each other's shared memory
};

enum Status { finished = 0, deadlock = 1, failed = 2 };

// Where threads meet. Threads meet only at the same line and operation, as CUDA demands.
struct Site {
  const char* operation;
  int line;
  bool orders_memory;  // what the members wrote before is visible to all of them after
};

using Word = unsigned long long;
using Fold = Word (*)(Word, Word);

// Waits for all live threads of the block.
void meet_block(const Site& site);

// Waits for all live lanes of `mask`. Every one gets the fold of their values, or zero without one.
Word meet(const Site& site, unsigned int mask, Word value = 0, Fold fold = nullptr);

// Waits for all live threads of a team: `threads` of the block, from a multiple of that on.
void meet_team(const Site& site, unsigned int threads);

// Waits for all live threads of the cluster.
void meet_cluster(const Site& site);

// Barriers are words of static shared memory. A phase of one ends when a thread of its block has
// arrived, which says how many bytes it expects, and these have come. Of what was written before,
// nothing but these bytes is ordered.
void open_barrier(const Site& site, void* barrier);
void expect_bytes(const Site& site, void* barrier, int bytes);

// Waits for the end of a phase of this parity, 0 at first.
void await_bytes(const Site& site, void* barrier, bool phase);

// Writes a word to where `to`, an address in this block's static shared memory, is in the block
// `rank` of the cluster, and tells that block's barrier.
void send_across(const Site& site, void* to, Word value, void* barrier, unsigned int rank);

// Waits for all live lanes of `mask`, and returns what lane `source` gave.
Word shuffle(const Site& site, unsigned int mask, Word value, unsigned int source);

// A copy to shared memory on its way: it is made when the thread waits for those it has begun, so
// that what is read before is what was there.
struct Copy {
  void* to;
  const void* from;
  int bytes;
};
void copy_later(const Site& site, const Copy& copy);
bool next_copy(Copy& copy);  // takes one of those that this thread has begun, if there are any

unsigned int lane();
void pass(const Site& site);  // lets the other threads run
void fence();                // __threadfence: from here on, atomics of this thread order memory
bool fenced();
void* dynamic_shared();
[[noreturn]] void fail(const char* operation, int line, const char* reason);

}  // namespace emulator

// Runs the grid; on deadlock or failure `message` (of `size` bytes) says where and why.
extern "C" int fuser_emulator_launch(const emulator::Kernel* kernel, const emulator::Launch* launch,
                                     void** arguments, char* message, unsigned long size);
