"""C++ for the CPU target."""
