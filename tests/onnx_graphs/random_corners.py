"""Random nodes of what ONNX Runtime's own tests of these operators look at: every type, older versions, negative pads,
empty sizes, duplicates, regions; each with the version that it is of."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from .random_nodes import axis_of, filled, inside, ints, sizes

TYPES = ["f4", "f8", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]
PADDED = ["f4", "f8", "i1", "i4", "i8", "u1", "u4", "u8"]


def any_of(rng, shape):
    return filled(rng, shape, rng.choice(TYPES))


def transpose(rng):
    shape = sizes(rng, rank=rng.randint(1, 7), most=3)
    order = rng.sample(range(len(shape)), len(shape))
    return "Transpose", [any_of(rng, shape)], {"perm": order}, rng.choice([1, 13, 21])


def reshape(rng):
    shape = sizes(rng)
    if rng.random() < 0.5:
        # 0 takes the size that was there.
        wanted = [rng.choice([0, size]) for size in shape]
        return "Reshape", [any_of(rng, shape), ints(*wanted)], {}, rng.choice([5, 13, 14])
    wanted = [*shape]
    rng.shuffle(wanted)
    return "Reshape", [any_of(rng, shape), ints(*wanted)], {"allowzero": 1}, rng.choice([14, 19])


def squeeze(rng):
    shape = sizes(rng)
    ones = [k for k, size in enumerate(shape) if size == 1]
    return "Squeeze", [any_of(rng, shape)], {"axes": ones} if ones else {}, rng.choice([1, 11])


def unsqueeze(rng):
    shape = sizes(rng)
    axes = rng.sample(range(len(shape) + 2), 2)
    return "Unsqueeze", [any_of(rng, shape)], {"axes": sorted(axes)}, rng.choice([1, 11])


def expand(rng):
    shape = sizes(rng)
    wanted = [rng.choice([1, size, rng.choice([0, 5]) if size == 1 else size]) for size in shape]
    return "Expand", [any_of(rng, shape), ints(*wanted)], {}, rng.choice([8, 13])


def tile(rng):
    shape = sizes(rng)
    return "Tile", [any_of(rng, shape), ints(*(rng.randint(0, 3) for _ in shape))], {}, rng.choice([6, 13])


def pad(rng):
    mode = rng.choice(["constant", "edge", "reflect", "wrap"])
    version = 19 if mode == "wrap" else rng.choice([10, 11, 13, 18, 19])
    shape = sizes(rng, least=0 if mode == "constant" else 1, most=5)
    start, end = [], []
    for size in shape:
        # What is cut off goes first; what is mirrored or goes round is what is left.
        cut = [rng.randint(0, size) if rng.random() < 0.2 else 0 for _ in range(2)]
        left = size - sum(cut)
        most = {"constant": 3, "edge": 3, "reflect": left - 1, "wrap": left}[mode]
        if left < (0 if mode == "constant" else 1):
            cut, most = [0, 0], size - 1 if mode == "reflect" else 1
        for counts, off in zip((start, end), cut, strict=True):
            counts.append(-off if off else rng.randint(0, most))
    attributes = {"mode": mode}
    kind = rng.choice(["f4", "f8"] if version == 10 else PADDED)
    x, value = filled(rng, shape, kind), filled(rng, (), kind)
    if version == 10:
        return "Pad", [x], {**attributes, "pads": [*start, *end], "value": float(value)}, version
    values = [value] if mode == "constant" else []
    if version >= 18 and rng.random() < 0.5:
        some = rng.sample(range(len(shape)), rng.randint(1, len(shape)))
        around = ints(*(start[k] for k in some), *(end[k] for k in some))
        axes = ints(*(k - rng.choice([0, len(shape)]) for k in some))
        return "Pad", [x, around, *(values or [None]), axes], attributes, version
    return "Pad", [x, ints(*start, *end), *values], attributes, version


def slice_(rng):
    shape = sizes(rng)
    if rng.random() < 0.3:
        axes = sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape))))
        starts, ends = ([rng.choice([-(2**31), -3, -1, 0, 1, 2, 2**31 - 1]) for _ in axes] for _ in range(2))
        return "Slice", [any_of(rng, shape)], {"axes": axes, "starts": starts, "ends": ends}, 1
    steps = [rng.choice([-3, -1, 1, 2]) for _ in shape]
    starts = [rng.randint(0, 3) if step > 0 else rng.choice([-1, 2, 2**31]) for step in steps]
    ends = [rng.choice([-1, 2, 2**62]) if step > 0 else rng.choice([-(2**62), 0, -3]) for step in steps]
    given = [ints(*starts), ints(*ends), ints(*range(len(shape))), ints(*steps)]
    return "Slice", [any_of(rng, shape), *given], {}, rng.choice([10, 11, 13])


def split(rng):
    shape = sizes(rng, least=1, most=7)
    axis = rng.randrange(len(shape))
    # The last part may be smaller; one result is compared.
    return "Split", [any_of(rng, shape)], {"axis": axis_of(rng, 1) if len(shape) == 1 else axis, "num_outputs": 1}, 18


def concat(rng):
    shape = sizes(rng)
    axis = rng.randrange(len(shape))
    shapes = [[*shape[:axis], rng.randint(0, 3), *shape[axis + 1 :]] for _ in range(rng.randint(1, 4))]
    kind = rng.choice(TYPES)
    return "Concat", [filled(rng, each, kind) for each in shapes], {"axis": axis - rng.choice([0, len(shape)])}, 13


def gather(rng):
    shape = sizes(rng, least=1)
    axis = rng.randrange(len(shape))
    indices = inside(rng, sizes(rng, rank=rng.randint(0, 3)), shape[axis])
    return "Gather", [any_of(rng, shape), indices], {"axis": axis - rng.choice([0, len(shape)])}, rng.choice([11, 13])


def gather_elements(rng):
    shape = sizes(rng, least=1, most=6)
    axis = rng.randrange(len(shape))
    wanted = [size if rng.random() < 0.7 else rng.randint(1, size) for size in shape]
    wanted[axis] = rng.randint(0, 6)
    attributes = {"axis": axis - rng.choice([0, len(shape)])}
    return "GatherElements", [any_of(rng, shape), inside(rng, wanted, shape[axis])], attributes, rng.choice([11, 13])


def gather_nd(rng):
    shape = sizes(rng, rank=rng.randint(2, 5), least=1, most=3)
    batch = rng.randint(0, len(shape) - 1)
    count = rng.randint(1, len(shape) - batch)
    outer = [*shape[:batch], *sizes(rng, rank=rng.randint(0, 2), least=1)]
    columns = [inside(rng, outer, size).astype("i8") for size in shape[batch : batch + count]]
    return "GatherND", [any_of(rng, shape), np.stack(columns, -1)], {"batch_dims": batch}, rng.choice([12, 13])


def scatter(rng):
    shape = sizes(rng, rank=rng.randint(1, 7), least=1, most=rng.choice([3, 5]))
    axis = rng.randrange(len(shape))
    wanted = [size if rng.random() < 0.7 else rng.randint(1, size) for size in shape]
    wanted[axis] = rng.randint(1, 9)
    kind = rng.choice(TYPES)
    # With duplicates: the last one stays, with ONNX Runtime, too.
    given = [filled(rng, shape, kind), inside(rng, wanted, shape[axis]), filled(rng, wanted, kind)]
    name, version = rng.choice([("Scatter", 9), ("ScatterElements", 11), ("ScatterElements", 18)])
    return name, given, {"axis": axis - rng.choice([0, len(shape)])}, version


def scatter_nd(rng):
    shape = sizes(rng, least=1, most=4)
    count = rng.randint(1, len(shape))
    outer = sizes(rng, rank=rng.randint(1, 2), least=1)
    columns = [inside(rng, outer, size).astype("i8") for size in shape[:count]]
    kind = rng.choice(TYPES)
    updates = filled(rng, [*outer, *shape[count:]], kind)
    return "ScatterND", [filled(rng, shape, kind), np.stack(columns, -1), updates], {}, rng.choice([11, 13, 16, 18])


def space_to_depth(rng):
    n, c, h, w = sizes(rng, rank=4, least=1, most=3)
    b = rng.randint(1, 3)
    kind, version = rng.choice([("f4", 1), ("f4", 13), ("f8", 13), ("u1", 13)])
    return "SpaceToDepth", [filled(rng, [n, c, h * b, w * b], kind)], {"blocksize": b}, version


def depth_to_space(rng):
    n, c, h, w = sizes(rng, rank=4, least=1, most=3)
    b, version = rng.randint(1, 3), rng.choice([1, 11, 13])
    modes = {} if version == 1 else {"mode": rng.choice(["DCR", "CRD"])}
    return (
        "DepthToSpace",
        [filled(rng, [n, c * b * b, h, w], rng.choice(["f4", "f8"]))],
        {"blocksize": b, **modes},
        version,
    )


def reverse_sequence(rng):
    shape = [*sizes(rng, rank=2, least=1, most=6), *sizes(rng, rank=rng.randint(0, 2), least=1)]
    time = rng.randrange(2)
    lengths = ints(*(rng.randint(1, shape[time]) for _ in range(shape[1 - time])))
    return "ReverseSequence", [any_of(rng, shape), lengths], {"time_axis": time, "batch_axis": 1 - time}, 10


def one_hot(rng):
    shape, depth = sizes(rng, rank=rng.randint(1, 3), least=1), rng.randint(1, 5)
    # Outside of the depth, either way, is off everywhere.
    kinds = rng.choice(["i8 i8 i8", "f4 i8 i8", "f4 f4 f4", "i8 f4 i4", "i8 i8 f4", "i4 i4 f4"]).split()
    indices, values = inside(rng, shape, depth + 3).astype(kinds[0]), filled(rng, [2], kinds[2])
    given = [indices, np.array([depth], kinds[1]), values]
    return "OneHot", given, {"axis": axis_of(rng, len(shape) + 1)}, rng.choice([9, 11])


def compress(rng):
    shape = sizes(rng, least=1, most=6)
    axis = rng.randrange(len(shape))
    condition = filled(rng, [rng.randint(1, shape[axis])], "?")
    return "Compress", [any_of(rng, shape), condition], {"axis": axis - rng.choice([0, len(shape)])}, 11


def eye_like(rng):
    made = rng.choice([TensorProto.FLOAT, TensorProto.INT64, TensorProto.DOUBLE, TensorProto.INT32])
    shape = sizes(rng, rank=2, least=1, most=6)
    return "EyeLike", [filled(rng, shape, "i4")], {"k": rng.randint(-9, 9), "dtype": made}, 9


def trilu(rng):
    shape = [*sizes(rng, rank=rng.randint(0, 2)), *sizes(rng, rank=2, most=6)]
    kind = rng.choice(["f4", "f8", "i8", "?"])
    k = np.array(rng.randint(-9, 9))
    return "Trilu", [filled(rng, shape, kind), k], {"upper": rng.randrange(2)}, 14


def non_zero(rng):
    x = filled(rng, sizes(rng, rank=rng.randint(1, 4)), rng.choice(["f4", "i4", "i8", "u1", "?"]))
    x[np.random.default_rng(rng.randrange(99)).random(x.shape) < 0.5] = 0
    return "NonZero", [x], {}, rng.choice([9, 13])


def where(rng):
    shape = sizes(rng, rank=3)
    parts = [[1 if rng.random() < 0.3 else size for size in shape][rng.randint(0, 2) :] for _ in range(3)]
    kind = rng.choice(TYPES)
    return "Where", [filled(rng, parts[0], "u1") % 2 == 0, *(filled(rng, each, kind) for each in parts[1:])], {}, 16


def upsample(rng):
    # Of channels first or last; batches are repeated, too.
    scales = [rng.choice([1, 1, 2]), 1, *(rng.choice([1, 1.5, 2, 2.7, 3]) for _ in range(2))]
    if rng.random() < 0.3:
        scales.append(scales.pop(1))
    x = filled(rng, sizes(rng, rank=4, least=1), rng.choice(["f4", "i4", "u1"]))
    if rng.random() < 0.5:
        return "Upsample", [x], {"mode": "nearest", "scales": [float(s) for s in scales]}, 7
    return "Upsample", [x, np.array(scales, "f4")], {"mode": "nearest"}, 9


def resize(rng):
    shape = [*sizes(rng, rank=2, least=1), rng.randint(1, 6), rng.randint(1, 6)]
    x = filled(rng, shape, rng.choice(["f4", "i4", "u1", "i1"]))
    scales = [rng.choice([0.3, 0.5, 1, 1.5, 2, 3]) for _ in range(2)]
    kind = rng.randrange(3)
    if kind == 0:
        return "Resize", [x, np.array([1, 1, *scales], "f4")], {"mode": "nearest"}, 10
    nearest = {
        "mode": "nearest",
        "nearest_mode": rng.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]),
    }
    wanted = [rng.randint(1, 9), rng.randint(1, 9)]
    if kind == 1:
        ends = [rng.choice([0, 0.25]), rng.choice([0, 0.5]), rng.choice([1, 0.75]), rng.choice([1, 1.5])]
        roi = np.array([0, 0, *ends[:2], 1, 1, *ends[2:]], "f4")
        modes = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
        version = rng.choice([11, 13])
        none = np.zeros(0, "f4") if version == 11 else None
        return "Resize", [x, roi, none, ints(*shape[:2], *wanted)], {**nearest, **modes}, version
    policy = rng.choice(["stretch", "not_larger", "not_smaller"])
    modes = {"axes": [2, 3], "keep_aspect_ratio_policy": policy, "coordinate_transformation_mode": "half_pixel"}
    return "Resize", [x, None, None, ints(*wanted)], {**nearest, **modes}, rng.choice([18, 19])


def range_(rng):
    kind = rng.choice(["i2", "i4", "i8", "f4", "f8"])
    numbers = [rng.randint(-20, 20), rng.randint(-20, 20), rng.choice([-3, -2, -1, 1, 2, 5])]
    if kind[0] == "f":
        numbers = [number + rng.choice([0, 0.25, 0.5]) for number in numbers]
    return "Range", [np.array(value, kind) for value in numbers], {}, 11


def shape_(rng):
    shape = sizes(rng)
    return "Shape", [any_of(rng, shape)], {"start": rng.randint(-5, 4), "end": rng.randint(-5, 5)}, rng.choice([15, 19])


CORNERS = [
    transpose, reshape, squeeze, unsqueeze, expand, tile, pad, slice_, split, concat, gather, gather_elements,
    gather_nd, scatter, scatter_nd, space_to_depth, depth_to_space, reverse_sequence, one_hot, compress, eye_like,
    trilu, non_zero, where, upsample, resize, range_, shape_,
]  # fmt: skip
