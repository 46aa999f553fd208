"""Text -> callables: compiled kernels, the calls that launch them, and what a person reads."""
