"""The benchmark of doors: every door does the same, and what is printed is a table of all."""

import numpy as np
import pytest

from benchmarks import doors


def leaves(tree):
    if isinstance(tree, dict):
        tree = [*tree.values()]
    return [leaf for each in tree for leaf in leaves(each)] if isinstance(tree, (list, tuple)) else [np.asarray(tree)]


@pytest.mark.parametrize("table", [doors.functions, doors.fused])
def test_every_door_gives_the_same(table):
    rows = table(5)
    assert len(rows) > 4
    for row in rows.values():
        assert {"NumPy"} <= set(row) <= {"NumPy", "PyTorch", "torch.ops", "JAX"}
        meant, *others = [leaves(call()) for call in row.values()]
        for found in others:
            assert all(np.array_equal(one, other) for one, other in zip(found, meant, strict=True))


def test_all_is_printed(capsys):
    doors.main(["--size", "4", "--rounds", "1"])
    lines = capsys.readouterr().out.splitlines()
    heads = [line for line in lines if ", µs |" in line]
    assert [head.count("|") for head in heads] == [len({door for row in table(4).values() for door in row}) + 2
                                                   for table in (doors.functions, doors.fused)]  # fmt: skip
    for head, table in zip(heads, (doors.functions(4), doors.fused(4)), strict=True):
        for name, row in table.items():
            (line,) = [line for line in lines if line.startswith(f"| {name} |")]
            cells = [cell.strip() for cell in line.split("|")[2:-1]]
            assert len(cells) == head.count("|") - 2
            assert sum(float(cell) > 0 for cell in cells if cell != "–") == len(row)
