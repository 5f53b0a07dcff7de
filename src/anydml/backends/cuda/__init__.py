"""The GPU engine, in Triton: it runs on NVIDIA and AMD GPUs, and on the CPU through Triton's interpreter.

Of the moves that may run together, a launch does all that have no lookups; a move with lookups is a launch of its own.
Reading order: `schedule` (which launches, in which order), `parts` (moves in vectors), `tiles` (who does what),
`fields` (what the kernel is told, and how), `plan`, `kernel`, `launch`, `refusals` (indices that must not be outside),
`operands` (constants and scratch), `engine`.
"""
