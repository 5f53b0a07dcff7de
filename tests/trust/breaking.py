"""What to change in a kernel so that it goes a little too far: each must end the process that the guard tests run."""

BREAKS = {
    "rows": ("word(entry, 2)", "word(entry, 2) + uint64(1)"),
    "interleave": ("slack = int(", "slack = 0 * int("),
    "pixels": ("i = length - count", "i = length - count + uint64(1)"),
    "row_blocks": ("at, element, soon", "at, element + uint64(1), soon"),
    "turn": ("start + reach + uint64(LINE) > limit", "start > limit"),
    "table": (
        "copy(end, start + load(from_columns + uint64(8) * j), size)",
        "copy(end, start + load(from_columns + uint64(8) * j), size + uint64(1))",
    ),
    "elements": ("count = min(segment, inner - first)", "count = min(segment, inner - first) + uint64(1)"),
    "in_line": ("* uint64(k)), uint64(size))", "* uint64(k)), uint64(size + 1))"),
    "fill": ("copy(to + size - uint64(LINE), lines", "copy(to + size - uint64(LINE - 1), lines"),
    "lookup": ("at, size)", "at, size + uint64(1))"),
}
"""Kernel to (text, its replacement)."""
