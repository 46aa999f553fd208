"""CUDA C++."""
