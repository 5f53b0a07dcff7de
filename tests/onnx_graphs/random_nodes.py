"""Random nodes of the operators that only move, with the arrays that they are given."""

from __future__ import annotations

import numpy as np
from onnx import helper, numpy_helper

TYPES = ["f4", "f8", "f2", "i4", "i8", "u1", "?"]
OPSET = 18
"""Of the nodes, which ONNX Runtime has in full."""


def sizes(rng, rank=None, least=0, most=4):
    return [rng.choice([least, 1, 2, 3, most]) for _ in range(rng.randint(1, 4) if rank is None else rank)]


def filled(rng, shape, kind=None):
    dtype = np.dtype(kind or rng.choice(TYPES))
    return np.random.default_rng(rng.randrange(2**32)).integers(0, 90, shape).astype(dtype)


def ints(*values):
    return np.array(values, np.int64)


def inside(rng, shape, size):
    return np.random.default_rng(rng.randrange(2**32)).integers(-size, size, shape).astype(rng.choice(["i4", "i8"]))


def axis_of(rng, rank):
    return rng.randrange(rank) - rng.choice([0, rank])


def transpose(rng):
    shape = sizes(rng)
    return "Transpose", [filled(rng, shape)], rng.choice([{}, {"perm": rng.sample(range(len(shape)), len(shape))}])


def reshape(rng):
    shape = sizes(rng, least=1)
    wanted = [*shape[:-2], int(np.prod(shape[-2:]))]
    rng.shuffle(wanted)
    if rng.random() < 0.5:
        wanted[rng.randrange(len(wanted))] = -1
    return "Reshape", [filled(rng, shape), ints(*wanted)], {}


def flatten(rng):
    shape = sizes(rng)
    return "Flatten", [filled(rng, shape)], {"axis": rng.randint(-len(shape), len(shape))}


def squeeze(rng):
    shape = sizes(rng)
    ones = [k - rng.choice([0, len(shape)]) for k, size in enumerate(shape) if size == 1 and rng.random() < 0.7]
    return "Squeeze", [filled(rng, shape), *([ints(*ones)] if ones else [])], {}


def unsqueeze(rng):
    shape = sizes(rng)
    count = rng.randint(1, 3)
    rank = len(shape) + count
    axes = [axis - rng.choice([0, rank]) for axis in rng.sample(range(rank), count)]
    return "Unsqueeze", [filled(rng, shape), ints(*axes)], {}


def expand(rng):
    shape = sizes(rng, least=1)
    wanted = [rng.choice([1, size, 5 if size == 1 else size]) for size in shape]
    if rng.random() < 0.5:
        wanted = wanted[rng.randrange(len(wanted)) :]
    else:
        wanted = [rng.randint(0, 3) for _ in range(rng.randint(0, 2))] + wanted
    return "Expand", [filled(rng, shape), ints(*wanted)], {}


def tile(rng):
    shape = sizes(rng)
    return "Tile", [filled(rng, shape), ints(*(rng.randint(0, 3) for _ in shape))], {}


def pad(rng):
    mode = rng.choice(["constant", "constant", "edge", "reflect"])
    shape = sizes(rng, least=1, most=5)
    most = [size - 1 if mode == "reflect" else 3 for size in shape]
    around = [rng.randint(0, n) for n in (*most, *most)]
    kind = rng.choice(["f4", "i8", "f8"])
    value = [filled(rng, (), kind)] if mode == "constant" and rng.random() < 0.5 else []
    return "Pad", [filled(rng, shape, kind), ints(*around), *value], {"mode": mode}


def where(rng):
    shape = sizes(rng, rank=3, least=1)
    parts = [[1 if rng.random() < 0.3 else size for size in shape][rng.randint(0, 2) :] for _ in range(3)]
    kind = rng.choice(["f4", "i8", "u1"])
    return "Where", [filled(rng, parts[0]) % 2 == 0, filled(rng, parts[1], kind), filled(rng, parts[2], kind)], {}


def gather_elements(rng):
    shape = sizes(rng, least=1, most=5)
    axis = rng.randrange(len(shape))
    wanted = [rng.randint(1, size) for size in shape]
    wanted[axis] = rng.randint(0, 6)
    return "GatherElements", [filled(rng, shape), inside(rng, wanted, shape[axis])], {"axis": axis}


def gather_nd(rng):
    shape = sizes(rng, least=1, rank=rng.randint(1, 4))
    batch = rng.randrange(len(shape))
    count = rng.randint(1, len(shape) - batch)
    outer = [*shape[:batch], *sizes(rng, rank=rng.randint(0, 2), least=1)]
    columns = [inside(rng, outer, size).astype("i8") for size in shape[batch : batch + count]]
    return "GatherND", [filled(rng, shape), np.stack(columns, -1)], {"batch_dims": batch}


def scatter_elements(rng):
    shape = sizes(rng, least=1, most=5)
    axis = rng.randrange(len(shape))
    wanted = [rng.randint(1, size) for size in shape]
    # Without duplicates, whose order ONNX leaves open.
    places = np.random.default_rng(rng.randrange(99)).permuted(
        np.broadcast_to(np.arange(shape[axis]), [*wanted[:axis], *wanted[axis + 1 :], shape[axis]]), axis=-1
    )
    indices = np.moveaxis(places, -1, axis)[tuple(slice(n) for n in wanted)]
    kind = rng.choice(["f4", "i8", "f8"])
    return "ScatterElements", [filled(rng, shape, kind), indices, filled(rng, wanted, kind)], {"axis": axis}


def scatter_nd(rng):
    shape = sizes(rng, least=1, most=5)
    count = rng.randint(1, len(shape))
    cells = int(np.prod(shape[:count]))
    chosen = rng.sample(range(cells), rng.randint(1, cells))
    indices = np.stack(np.unravel_index(chosen, shape[:count]), -1).astype("i8")
    kind = rng.choice(["f4", "i8", "f8"])
    return "ScatterND", [filled(rng, shape, kind), indices, filled(rng, [len(chosen), *shape[count:]], kind)], {}


def depth_to_space(rng):
    n, c, h, w = sizes(rng, rank=4, least=1)
    b = rng.randint(1, 3)
    return (
        "DepthToSpace",
        [filled(rng, [n, c * b * b, h, w], "f4")],
        {"blocksize": b, "mode": rng.choice(["DCR", "CRD"])},
    )


def space_to_depth(rng):
    n, c, h, w = sizes(rng, rank=4, least=1)
    b = rng.randint(1, 3)
    return "SpaceToDepth", [filled(rng, [n, c, h * b, w * b], "f4")], {"blocksize": b}


def reverse_sequence(rng):
    shape = [*sizes(rng, rank=2, least=1, most=6), *sizes(rng, rank=rng.randint(0, 2), least=1)]
    time = rng.randrange(2)
    lengths = ints(*(rng.randint(1, shape[time]) for _ in range(shape[1 - time])))
    return "ReverseSequence", [filled(rng, shape), lengths], {"time_axis": time, "batch_axis": 1 - time}


def one_hot(rng):
    shape, depth = sizes(rng, least=1), rng.randint(1, 5)
    indices = inside(rng, shape, depth + 2).astype("i8")
    return "OneHot", [indices, ints(depth), filled(rng, [2], "f4")], {"axis": axis_of(rng, len(shape) + 1)}


def compress(rng):
    shape = sizes(rng, least=1, most=6)
    axis = rng.randrange(len(shape))
    if rng.random() < 0.3:
        return "Compress", [filled(rng, shape), filled(rng, [rng.randint(1, int(np.prod(shape)))]) % 2 == 0], {}
    return "Compress", [filled(rng, shape), filled(rng, [rng.randint(1, shape[axis])]) % 2 == 0], {"axis": axis}


def eye_like(rng):
    return "EyeLike", [filled(rng, sizes(rng, rank=2, least=1, most=6), "f4")], {"k": rng.randint(-4, 4)}


def trilu(rng):
    shape = [*sizes(rng, rank=rng.randint(0, 2), least=1), *sizes(rng, rank=2, least=1, most=6)]
    return (
        "Trilu",
        [filled(rng, shape, rng.choice(["f4", "i8"])), np.array(rng.randint(-5, 5))],
        {"upper": rng.randrange(2)},
    )


def center_crop_pad(rng):
    shape = sizes(rng, least=1, most=6)
    return "CenterCropPad", [filled(rng, shape, "f4"), ints(*(rng.randint(1, 7) for _ in shape))], {}


def non_zero(rng):
    return "NonZero", [filled(rng, sizes(rng, least=1), "i8") % 3], {}


def resize(rng):
    shape = [*sizes(rng, rank=2, least=1), rng.randint(2, 6), rng.randint(2, 6)]
    modes = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    mode = rng.choice([*modes, "half_pixel_symmetric", "tf_half_pixel_for_nn"])
    nearest = rng.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    attributes = {"mode": "nearest", "coordinate_transformation_mode": mode, "nearest_mode": nearest}
    if rng.random() < 0.5:
        scales = np.array([1, 1, *(rng.choice([0.5, 1, 1.5, 2, 3]) for _ in range(2))], "f4")
        return "Resize", [filled(rng, shape, "f4"), None, scales], attributes
    return (
        "Resize",
        [filled(rng, shape, "f4"), None, None, ints(*shape[:2], rng.randint(1, 9), rng.randint(1, 9))],
        attributes,
    )


def range_(rng):
    start, limit, delta = rng.randint(-20, 20), rng.randint(-20, 20), rng.choice([-3, -2, -1, 1, 2, 5])
    kind = rng.choice(["i4", "i8", "f4"])
    return "Range", [np.array(value, kind) for value in (start, limit, delta)], {}


MAKERS = [
    transpose, reshape, flatten, squeeze, unsqueeze, expand, tile, pad, where, gather_elements, gather_nd,
    scatter_elements, scatter_nd, depth_to_space, space_to_depth, reverse_sequence, one_hot, compress, eye_like, trilu,
    center_crop_pad, non_zero, resize, range_,
]  # fmt: skip


def model_of(kind, arrays, attributes, opset=OPSET, fed=None):
    """A graph of one node, and what it is fed: the first `fed` inputs, the others are constants; by default all."""
    names = ["" if array is None else f"x{k}" for k, array in enumerate(arrays)]
    node = helper.make_node(kind, names, ["y"], name="n", **attributes)
    feeds = {name: array for name, array in zip(names, arrays, strict=True) if array is not None}
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feeds.items()
    ]
    given = dict([*feeds.items()][:fed])
    constants = [numpy_helper.from_array(array, name) for name, array in feeds.items() if name not in given]
    first = next(array for array in (arrays if kind not in ("Where", "OneHot") else arrays[-1:]) if array is not None)
    made = np.dtype("i8") if kind in ("NonZero", "Shape", "Size") else first.dtype
    if kind == "ConstantOfShape":
        made = helper.tensor_dtype_to_np_dtype(attributes["value"].data_type) if attributes else np.dtype("f4")
    if kind == "EyeLike" and "dtype" in attributes:
        made = helper.tensor_dtype_to_np_dtype(attributes["dtype"])
    result = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(made), None)
    graph = helper.make_graph([node], "g", infos[: len(given)], [result], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), given
