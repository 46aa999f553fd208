// Runs one kernel under a sanitizer: a program of its own, since a sanitizer cannot be loaded late.
//
//     program LAUNCH
//
// LAUNCH holds the grid, the block, the dynamic shared bytes, the order and the blocks of a cluster
// (9 unsigned ints), the number of arguments, then for each argument a kind (0: a value, 1: a
// buffer), how far past a multiple of 64 its address is, its size, and its bytes. A buffer ends with its heap block, and
// what lies before it is poisoned. Afterwards the buffers are written back to LAUNCH, one after
// another.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fibers.h"

#if defined(FUSER_ASAN)
#include <sanitizer/asan_interface.h>
#endif

extern "C" const emulator::Kernel fuser_emulator_kernel;

namespace {

constexpr int max_arguments = 512;
constexpr size_t alignment = 64;

struct Argument {
  unsigned long kind, past, bytes;
  char* at;
};

Argument arguments[max_arguments];
void* values[max_arguments];

void read(void* to, size_t bytes, FILE* file) {
  if (fread(to, 1, bytes, file) != bytes) abort();
}

void read(Argument& argument, FILE* file) {
  read(&argument, 3 * sizeof(unsigned long), file);
  void* block;
  if (posix_memalign(&block, alignment, argument.past + argument.bytes) != 0) abort();
#if defined(FUSER_ASAN)
  ASAN_POISON_MEMORY_REGION(block, argument.past);
#endif
  argument.at = static_cast<char*>(block) + argument.past;
  read(argument.at, argument.bytes, file);
}

// Whether the arguments have the sizes of the kernel's parameters.
bool fits(unsigned long count) {
  const unsigned int* parameters = fuser_emulator_kernel.parameters;
  if (count != parameters[0]) return false;
  for (unsigned long i = 0; i < count; ++i) {
    const unsigned long bytes = arguments[i].kind == 1 ? sizeof(void*) : arguments[i].bytes;
    if (bytes != parameters[i + 1]) return false;
  }
  return true;
}

}  // namespace

int main(int, char** words) {
  FILE* file = fopen(words[1], "rb");
  if (file == nullptr) return 3;
  emulator::Launch launch;
  read(&launch, sizeof launch, file);
  unsigned long count = 0;
  read(&count, sizeof count, file);
  for (unsigned long i = 0; i < count; ++i) {
    read(arguments[i], file);
    values[i] = arguments[i].kind == 1 ? &arguments[i].at : static_cast<void*>(arguments[i].at);
  }
  fclose(file);
  char message[2000] = "the arguments do not have the sizes of the parameters";
  int status = emulator::failed;
  if (fits(count)) {
    status =
        fuser_emulator_launch(&fuser_emulator_kernel, &launch, values, message, sizeof message);
  }
  if (status != 0) {
    fprintf(stderr, "EMULATOR %d %s\n", status, message);
    _exit(status);  // threads that never ended would race with what follows
  }
  file = fopen(words[1], "wb");
  for (unsigned long i = 0; i < count; ++i) {
    if (arguments[i].kind == 1) fwrite(arguments[i].at, 1, arguments[i].bytes, file);
  }
  fclose(file);
  return status;
}
