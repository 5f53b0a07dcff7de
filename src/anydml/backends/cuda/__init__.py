"""The GPU engine, in Triton: it runs on NVIDIA and AMD GPUs, and on the CPU through Triton's interpreter.

A launch does all the moves of an operator that have no lookups; a move with lookups is a launch of its own. Reading
order: `parts` (moves in vectors), `tiles` (who does what), `fields` (what the kernel is told, and how), `plan`,
`kernel`, `launch`, `engine`.
"""
