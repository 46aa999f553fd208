// Execution contexts: a stack to run on, and the switch between two of them.
//
// On x86-64 a switch is a dozen instructions; elsewhere ucontext, about 12 times slower.
#pragma once

#include <stddef.h>
#include <sys/mman.h>
#if !defined(__x86_64__) || defined(FUSER_UCONTEXT)
#include <ucontext.h>
#endif

#if defined(FUSER_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif defined(FUSER_TSAN)
#include <sanitizer/tsan_interface.h>
// The interface for garbage collectors: the way to say that memory starts a new life.
extern "C" void __tsan_java_init(unsigned long begin, unsigned long size);
extern "C" void __tsan_java_alloc(unsigned long begin, unsigned long size);
extern "C" void __tsan_java_free(unsigned long begin, unsigned long size);
#endif

namespace emulator {

#if defined(FUSER_ASAN) || defined(FUSER_TSAN)
constexpr size_t stack_bytes = 512 << 10;  // the sanitizers print their reports on it
#else
constexpr size_t stack_bytes = FUSER_STACK_BYTES;
#endif
constexpr size_t page_bytes = 4096;

#if defined(__x86_64__) && !defined(FUSER_UCONTEXT)

using Registers = void*;  // the stack pointer; the registers lie on the stack

extern "C" void fuser_emulator_switch(Registers* from, Registers to);
asm(R"(
.text
.hidden fuser_emulator_switch
.globl fuser_emulator_switch
.type fuser_emulator_switch, @function
fuser_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size fuser_emulator_switch, . - fuser_emulator_switch
)");

inline void start(Registers& registers, char* base, size_t bytes, void (*entry)()) {
  void** top = reinterpret_cast<void**>(base + bytes);
  *--top = nullptr;  // where `entry` would return to
  *--top = reinterpret_cast<void*>(entry);
  registers = top - 6;
}

inline void switch_registers(Registers& from, Registers& to) { fuser_emulator_switch(&from, to); }

#else

using Registers = ucontext_t;

inline void start(Registers& registers, char* base, size_t bytes, void (*entry)()) {
  getcontext(&registers);
  registers.uc_stack.ss_sp = base;
  registers.uc_stack.ss_size = bytes;
  makecontext(&registers, entry, 0);
}

inline void switch_registers(Registers& from, Registers& to) { swapcontext(&from, &to); }

#endif

struct Context {
  Registers registers{};
  char* stack = nullptr;  // its lowest byte; null for the launching thread itself
  const void* native_stack = nullptr;
  size_t native_bytes = 0;
#if defined(FUSER_TSAN)
  void* fiber = nullptr;
#endif
};

// Makes `context` start `entry` on the stack of its number. The stacks are mapped once, or when there
// are more than before, with a guard page below each; for the thread sanitizer always anew and
// without guards, so that they are new to it. `number` staggers the tops over the cache's sets.
class Stacks {
 public:
  void renew(size_t count) {
    if (base_ != nullptr && guarded && count * each <= bytes_) return;
    if (base_ != nullptr) munmap(base_, bytes_);
    bytes_ = (count < 1024 && guarded ? 1024 : count) * each;
    void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) __builtin_trap();
    base_ = static_cast<char*>(at);
    for (size_t from = 0; guarded && from < bytes_; from += each) {
      mprotect(base_ + from, page_bytes, PROT_NONE);
    }
  }

  void prepare(Context& context, size_t number, void (*entry)()) {
    context.stack = base_ + number * each + page_bytes;
    start(context.registers, context.stack, stack_bytes - number % 16 * 192, entry);
  }

 private:
  static constexpr size_t each = stack_bytes + page_bytes;
#if defined(FUSER_TSAN)
  static constexpr bool guarded = false;
#else
  static constexpr bool guarded = true;
#endif
  size_t bytes_ = 0;
  char* base_ = nullptr;
};

// To be called last thing before the registers are switched.
inline void leaving([[maybe_unused]] Context& to) {
#if defined(FUSER_ASAN)
  static void* fake_stack;  // none is made: detect_stack_use_after_return is off
  const void* bottom = to.stack == nullptr ? to.native_stack : to.stack;
  __sanitizer_start_switch_fiber(&fake_stack, bottom,
                                 to.stack == nullptr ? to.native_bytes : stack_bytes);
#elif defined(FUSER_TSAN)
  __tsan_switch_to_fiber(to.fiber, 1);  // 1: a switch orders nothing
#endif
}

// To be called first thing on a context that was switched to.
inline void arrived([[maybe_unused]] Context* from) {
#if defined(FUSER_ASAN)
  if (from != nullptr && from->stack == nullptr) {
    __sanitizer_finish_switch_fiber(nullptr, &from->native_stack, &from->native_bytes);
  } else {
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
  }
#endif
}

}  // namespace emulator
