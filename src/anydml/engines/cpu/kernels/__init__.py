"""Numba kernels: pointers and element sizes only. Importing this package does not import Numba.

Every kernel has the signature ``kernel(table, counter, chunks) -> uint64``. The table is an array of 64-bit words that
`bind` fills (see each kernel's `Words`); the counter is one 64-bit word from which threads claim chunks of units; the
result is 1 while chunks may be left and 0 when there are none, so that a caller can look for signals in between.
"""
