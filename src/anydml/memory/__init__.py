"""Addresses and windows of host memory, arrays on a device, what overlaps, and memory that is used again."""
