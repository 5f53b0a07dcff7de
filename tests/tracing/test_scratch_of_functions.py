"""Functions of anydml in a chain of moves: part of the pass, but for those that the page of `fuse` names."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import anydml as dml

X = np.arange(64, dtype=np.float32).reshape(1, 4, 4, 4)
INDICES = np.array([[0], [2]])
COLUMN = np.zeros((1, 4, 4, 1), np.int64)

CALLS = {
    "broadcast_to": lambda x: dml.broadcast_to(x, (2, 4, 4, 4)),
    "compress": lambda x: dml.compress(np.array([True, False, True, False]), x, 1),
    "copy": dml.copy,
    "depth_to_space": lambda x: dml.depth_to_space(x, 2),
    "diagonal_matrix": lambda x: dml.diagonal_matrix(x, 1),
    "fill": lambda x: dml.join([dml.fill(x, 1), x], 1),
    "flip": lambda x: dml.flip(x, 1),
    "gather": lambda x: dml.gather(x, np.array([0, 2]), 1),
    "gather_elements": lambda x: dml.gather_elements(x, COLUMN, 3),
    "gather_nd": lambda x: dml.gather_nd(x, INDICES[:1]),
    "join": lambda x: dml.join([x, x], 1),
    "one_hot": lambda x: dml.one_hot(np.arange(4), x[0, 0, 0, :2], 4),
    "pad": lambda x: dml.pad(x, [0, 0, 1, 1, 0, 0, 1, 1], "reflect"),
    "permute_dims": lambda x: dml.permute_dims(x, (0, 2, 1, 3)),
    "repeat": lambda x: dml.repeat(x, 2, 1),
    "reverse_subsequences": lambda x: dml.reverse_subsequences(x, COLUMN.astype(np.uint32) + 2, 3),
    "roll": lambda x: dml.roll(x, 1, 1),
    "scatter": lambda x: dml.scatter(x, COLUMN, np.zeros((1, 4, 4, 1), np.float32), 3),
    "scatter_nd": lambda x: dml.scatter_nd(x, INDICES[:1], x),
    "sequence": lambda x: dml.join([dml.sequence(x[0, 0, 0], 0, 1), x[0, 0, 0]], 0),
    "slice": lambda x: dml.slice(x, [0, 1, 0, 0], [1, 2, 4, 4]),
    "slice_grad": lambda x: dml.slice_grad(x, (1, 4, 4, 8), [0] * 4, [1, 4, 4, 4], [1] * 4),
    "space_to_depth": lambda x: dml.space_to_depth(x, 2),
    "split": lambda x: dml.split(x, [1, 3], 1)[1],
    "stack": lambda x: dml.stack([x, x], 1),
    "tile": lambda x: dml.tile(x, (1, 2, 1, 1)),
    "tril": dml.tril,
    "triu": dml.triu,
    "unfold": lambda x: dml.unfold(x, (2, 2)),
    "upsample": lambda x: dml.upsample(x, (1, 1, 2, 2)),
    "where": lambda x: dml.where(X > 4, x, x),
}


def test_the_page_names_the_functions_that_need_scratch():
    page = (Path(__file__).parents[2] / "docs" / "fuse.md").read_text("utf-8")
    (sentence,) = re.findall(r"Only results of ([^.]*)\s+are written to scratch memory first", page)
    stored = set()
    for name, call in CALLS.items():
        fused = dml.fuse(lambda x, call=call: np.flip(call(x), -1))
        np.testing.assert_array_equal(fused(X), np.flip(call(X), -1))
        stored |= {name} if fused.lower(X).scratch_bytes else set()
    assert set(re.findall(r"`(\w+)`", sentence)) == stored
