"""C++ text -> a kernel on the processor."""
