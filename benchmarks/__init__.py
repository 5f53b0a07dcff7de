"""Benchmarks: every case against its peers in the same process, interleaved, as ratios of medians."""
