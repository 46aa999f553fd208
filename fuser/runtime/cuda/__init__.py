"""CUDA text -> a kernel on a GPU."""
