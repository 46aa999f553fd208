// Runs one kernel under a sanitizer: a program of its own, since a sanitizer cannot be loaded late.
//
//     program LAUNCH
//
// LAUNCH holds the grid, the block, the dynamic shared bytes and the order (8 unsigned ints), the
// number of arguments, then for each argument a kind (0: a value, 1: a buffer), its bytes, and the
// bytes themselves. A buffer gets a heap block of exactly its size. Afterwards the buffers are
// written back to LAUNCH, one after another.
#include <stdio.h>
#include <stdlib.h>

#include "fibers.h"

extern "C" const emulator::Kernel fuser_emulator_kernel;

namespace {

constexpr int max_arguments = 512;

void read(void* to, size_t bytes, FILE* file) {
  if (fread(to, 1, bytes, file) != bytes) abort();
}

}  // namespace

int main(int, char** words) {
  FILE* file = fopen(words[1], "rb");
  if (file == nullptr) return 3;
  emulator::Launch launch;
  read(&launch, sizeof launch, file);
  unsigned long count = 0;
  read(&count, sizeof count, file);
  static void* values[max_arguments];
  static void* buffers[max_arguments];
  static unsigned long sizes[max_arguments], kinds[max_arguments];
  for (unsigned long i = 0; i < count; ++i) {
    read(&kinds[i], sizeof kinds[i], file);
    read(&sizes[i], sizeof sizes[i], file);
    buffers[i] = malloc(sizes[i]);
    read(buffers[i], sizes[i], file);
    values[i] = kinds[i] == 1 ? &buffers[i] : buffers[i];
  }
  fclose(file);
  char message[2000] = "";
  const int status =
      fuser_emulator_launch(&fuser_emulator_kernel, &launch, values, message, sizeof message);
  if (status != 0) fprintf(stderr, "EMULATOR %d %s\n", status, message);
  file = fopen(words[1], "wb");
  for (unsigned long i = 0; i < count; ++i) {
    if (kinds[i] == 1) fwrite(buffers[i], 1, sizes[i], file);
    free(buffers[i]);
  }
  fclose(file);
  return status;
}
