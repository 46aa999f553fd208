// A libcuda.so.1 for tests without a GPU: it records each call as a line of text.
//
// cuda-bindings finds functions by cuGetProcAddress, so those it does not use may be missing.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {
std::string record;
bool context_is_bound = false;

template <typename... Values>
int say(const char* format, Values... values) {
  char line[256];
  std::snprintf(line, sizeof line, format, values...);
  record += line;
  record += '\n';
  return 0;
}
}  // namespace

extern "C" {
const char* fake_record() { return record.c_str(); }

int cuInit(unsigned) { return 0; }

int cuDriverGetVersion(int* version) { return *version = 13000, 0; }

int cuGetErrorName(int, const char** text) { return *text = "NAME", 0; }

int cuGetErrorString(int, const char** text) { return *text = "what it means", 0; }

int cuDeviceGet(int* device, int ordinal) { return *device = 100 + ordinal, 0; }

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = 232448;
  return say("cuDeviceGetAttribute %d of device %d", attribute, device);
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = reinterpret_cast<void*>(0xC0);
  return say("cuDevicePrimaryCtxRetain %d", device);
}

int cuCtxGetCurrent(void** context) {
  *context = context_is_bound ? reinterpret_cast<void*>(0xC0) : nullptr;
  return 0;
}

int cuCtxSetCurrent(void* context) {
  context_is_bound = true;
  return say("cuCtxSetCurrent %p", context);
}

int cuLibraryLoadData(void** library, const char* code, void*, void*, unsigned options, void*,
                      void*, unsigned more_options) {
  if (code[0] == '\x7f') ++code;    // of a real image
  if (code[0] != 'E') return 200;  // CUDA_ERROR_INVALID_IMAGE
  *library = reinterpret_cast<void*>(0x11B);
  return say("cuLibraryLoadData %.3s, options %u %u", code, options, more_options);
}

int cuLibraryGetKernel(void** kernel, void* library, const char* name) {
  if (std::strcmp(name, "absent") == 0) return 500;  // CUDA_ERROR_NOT_FOUND
  *kernel = reinterpret_cast<void*>(0x4E1);
  return say("cuLibraryGetKernel %p %s", library, name);
}

// More than the kernel was compiled with: what the driver counts is what it holds the limit to.
int cuKernelGetAttribute(int* value, int attribute, void* kernel, int device) {
  *value = 2048;
  return say("cuKernelGetAttribute %d of %p on device %d", attribute, kernel, device);
}

int cuKernelSetAttribute(int attribute, int value, void* kernel, int device) {
  return say("cuKernelSetAttribute %d = %d of %p on device %d", attribute, value, kernel, device);
}

// As the driver, it knows the parameters from the image: here a pointer, an int64 and a float.
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void* stream, void** parameters, void** extra) {
  if (!context_is_bound && stream == nullptr) return 201;  // CUDA_ERROR_INVALID_CONTEXT
  if (gx == 0) return 1;                                   // CUDA_ERROR_INVALID_VALUE
  return say("cuLaunchKernel %p <%u %u %u, %u %u %u, %u, %p> (%p, %lld, %g) %p", function, gx, gy,
             gz, bx, by, bz, shared, stream, *static_cast<void**>(parameters[0]),
             *static_cast<long long*>(parameters[1]), *static_cast<float*>(parameters[2]),
             static_cast<void*>(extra));
}

int cuGetProcAddress_v2(const char* name, void** found, int, unsigned long long, int*) {
  Dl_info self;
  dladdr(reinterpret_cast<void*>(&fake_record), &self);
  *found = dlsym(dlopen(self.dli_fname, RTLD_NOLOAD | RTLD_NOW), name);
  return 0;
}

int cuGetProcAddress(const char* name, void** found, int version, unsigned long long flags) {
  return cuGetProcAddress_v2(name, found, version, flags, nullptr);
}
}
