"""Random valid descs, random contents, and what NumPy says their outputs are: a judge that knows nothing of anydml."""

import math

import numpy as np

import anydml as dml

T = dml.DataType
BITS_64 = (T.FLOAT64, T.INT64, T.UINT64)
BITS_32_AND_LESS = tuple(t for t in T if t not in BITS_64)
INDEX_TYPES = (T.INT32, T.INT64, T.UINT32, T.UINT64)
OPERATORS = ("split", "join", "slice", "slice1", "gather", "split_training", "concat_training")


def random_sizes(rng, most=8, elements=120):
    """1 to `most` sizes, with few elements in all and many 1s."""
    sizes = []
    for _ in range(int(rng.integers(1, most + 1))):
        left = elements // math.prod(sizes)
        sizes.append(int(rng.integers(1, max(2, min(left, 7) + 1))) if rng.random() < 0.75 else 1)
    return sizes


def padded_strides(rng, sizes, unit=1, gap=3):
    """Strides of a tensor whose dimensions lie in any order with gaps between: no two elements meet."""
    strides = [0] * len(sizes)
    span = unit
    for d in rng.permutation(len(sizes)):
        strides[d] = span + int(rng.integers(0, gap))
        span += (sizes[d] - 1) * strides[d]
    return strides


def interleaved_strides(rng, sizes):
    """Small strides whose elements interleave and yet never meet, where a few tries find some."""
    for _ in range(20):
        strides = [int(s) for s in rng.integers(1, 12, len(sizes))]
        if not collides(sizes, strides):
            return strides
    return padded_strides(rng, sizes)


def collides(sizes, strides, element=1):
    """Whether two elements share a unit of memory, by looking at each."""
    spots = np.arange(element)
    for size, stride in zip(sizes, strides, strict=True):
        spots = (spots + stride * np.arange(size)[:, None]).reshape(-1)
    return len(set(spots.tolist())) != len(spots)


def random_tensor(rng, data_type, sizes, is_output):
    """A desc with packed, permuted, padded, interleaved and (inputs only) broadcast or overlapping strides."""
    draw = rng.random()
    if draw < 0.25:
        strides = None
    elif draw < 0.65 or (is_output and draw < 0.85):
        strides = padded_strides(rng, sizes)
    elif is_output:
        strides = interleaved_strides(rng, sizes)
    elif draw < 0.85:
        strides = [0 if rng.random() < 0.5 else s for s in padded_strides(rng, sizes)]
    else:
        strides = [int(s) for s in rng.integers(0, 5, len(sizes))]
    flags = dml.TensorFlags.OWNED_BY_DML if rng.random() < 0.2 else dml.TensorFlags.NONE
    alignment = int(rng.choice([0, 8, 16, 256]))
    tensor = dml.TensorDesc(data_type, sizes, strides, flags, None, alignment)
    if rng.random() < 0.3:
        total = tensor.minimum_size_in_bytes + int(rng.integers(0, 9))
        tensor = dml.TensorDesc(data_type, sizes, strides, flags, total, alignment)
    return tensor


def random_parts(rng, size):
    """Sizes of at least 1 that add up."""
    cuts = np.flatnonzero(rng.random(size - 1) < 0.4) + 1
    return np.diff([0, *cuts, size]).tolist()


def random_desc(rng, operator):
    """A desc of `operator` that every rule allows at the latest level."""
    types = BITS_32_AND_LESS if operator == "split" else tuple(T)
    data_type = types[rng.integers(len(types))]
    sizes = random_sizes(rng)

    def one(shape, is_output, data_type=data_type):
        return random_tensor(rng, data_type, shape, is_output)

    if operator in ("slice", "slice1"):
        return _random_slice(rng, operator, sizes, one)
    if operator == "gather":
        return _random_gather(rng, sizes, one)
    axis = int(rng.integers(len(sizes)))
    lengths = random_parts(rng, sizes[axis])
    if operator == "split_training" and rng.random() < 0.3:
        lengths = [1] * sizes[axis]
    shapes = [[*sizes[:axis], n, *sizes[axis + 1 :]] for n in lengths]
    signed_axis = axis - len(sizes) if rng.random() < 0.5 else axis
    if operator == "split":
        return dml.SplitOperatorDesc(one(sizes, False), [one(s, True) for s in shapes], axis)
    if operator == "join":
        return dml.JoinOperatorDesc([one(s, False) for s in shapes], one(sizes, True), axis)
    numbers = one([len(lengths)], operator == "concat_training", T.INT64) if rng.random() < 0.7 else None
    if operator == "concat_training":
        parts = [one(s, False) for s in shapes]
        return dml.ConcatTrainingOperatorDesc(parts, one(sizes, True), numbers, signed_axis)
    if len(set(lengths)) > 1 or numbers is not None:
        numbers = dml.TensorDesc(T.INT64, [len(lengths)], [int(rng.integers(1, 4))])
    return dml.SplitTrainingOperatorDesc(one(sizes, False), numbers, [one(s, True) for s in shapes], signed_axis)


def _random_slice(rng, operator, sizes, one):
    offsets, windows, steps, taken = [], [], [], []
    for size in sizes:
        step = int(rng.integers(1, size + 2))
        offset = int(rng.integers(0, size))
        window = int(rng.integers(1, size - offset + 1))
        most = 1 + (window - 1) // step
        if operator == "slice1" and rng.random() < 0.5:
            step = -(2**31) if most == 1 and rng.random() < 0.2 else -step
        offsets.append(offset)
        windows.append(window)
        steps.append(step)
        taken.append(int(rng.integers(1, most + 1)))
    x, y = one(sizes, False), one(taken, True)
    if operator == "slice":
        return dml.SliceOperatorDesc(x, y, offsets, taken, steps)
    return dml.Slice1OperatorDesc(x, y, offsets, windows, steps)


def _random_gather(rng, sizes, one):
    rank, axis = len(sizes), int(rng.integers(len(sizes)))
    leading_ones = next(d for d, size in enumerate(sizes) if size != 1 or d == axis)
    meaningful = random_sizes(rng, 8, 12)[: int(rng.integers(0, leading_ones + 2))]
    more_ones = int(rng.integers(0, rank - len(meaningful) + 1)) if rng.random() < 0.3 else 0
    indices = [1] * more_ones + meaningful
    overflow = max(0, len(indices) - 1)
    from_lead = min(overflow, leading_ones)
    output = [*sizes[from_lead:axis], *indices[overflow - from_lead :], *sizes[axis + 1 :]]
    x, y = one(sizes, False), one([1] * (rank - len(output)) + output, True)
    index_tensor = one([1] * (rank - len(indices)) + indices, False, INDEX_TYPES[rng.integers(4)])
    return dml.GatherOperatorDesc(x, index_tensor, y, axis, len(indices))


def positive_axis(desc):
    """The axis of a desc of parts, counted from the front."""
    return desc.axis % len(desc.outputs[0][1].sizes)


def fill_inputs(rng, desc, inputs):
    """Random bytes in every input's memory; indices often in range, sometimes hostile; `split` as the desc has it."""
    for number, ((name, tensor), array) in enumerate(zip(desc.inputs, inputs, strict=True)):
        if name == "IndicesTensor":
            low, high = np.iinfo(array.dtype).min, np.iinfo(array.dtype).max
            size = desc.input_tensor.sizes[desc.axis]
            some = [0, size - 1, size, size + 1, low, low + 1, high, high - 1, -1 if low else 1, -size if low else 2]
            near = np.array(some, object)[rng.integers(0, len(some), tensor.sizes)]
            good = rng.integers(0, size, tensor.sizes)
            array[...] = np.where(rng.random(tensor.sizes) < 0.4, near, good).astype(array.dtype)
        elif number and isinstance(desc, dml.SplitTrainingOperatorDesc):
            array[...] = [part.sizes[positive_axis(desc)] for part in desc.output_tensors]


def expected_outputs(desc, inputs):
    """What NumPy makes of input arrays, one array an output, in the desc's sizes."""
    match desc:
        case dml.SplitOperatorDesc() | dml.SplitTrainingOperatorDesc():
            axis = positive_axis(desc)
            ends = np.cumsum([part.sizes[axis] for part in desc.output_tensors])[:-1]
            return np.split(inputs[0], ends, axis)
        case dml.JoinOperatorDesc():
            return [np.concatenate(inputs, desc.axis)]
        case dml.ConcatTrainingOperatorDesc():
            axis = positive_axis(desc)
            lengths = np.array([part.shape[axis] for part in inputs])
            return [np.concatenate(inputs, axis), lengths][: len(desc.outputs)]
        case dml.SliceOperatorDesc():
            spans = zip(desc.offsets, desc.sizes, desc.strides, strict=True)
            return [inputs[0][tuple(np.s_[o : o + (n - 1) * s + 1 : s] for o, n, s in spans)]]
        case dml.Slice1OperatorDesc():
            result = inputs[0]
            window = (desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides)
            for d, (offset, size, step) in enumerate(zip(*window, strict=True)):
                inside = np.moveaxis(result, d, 0)[offset : offset + size][::step]
                result = np.moveaxis(inside[: desc.output_tensor.sizes[d]], 0, d)
            return [result]
        case dml.GatherOperatorDesc():
            size = inputs[0].shape[desc.axis]
            numbers = [int(i) for i in inputs[1].flat]
            picked = [min(max(i + size if i < 0 else i, 0), size - 1) for i in numbers]
            return [np.take(inputs[0], picked, desc.axis).reshape(desc.output_tensor.sizes)]
    raise AssertionError(desc)


def is_read_flat(array, tensor):
    """Whether an array of the tensor's one size is a flat buffer all the same, which the desc's strides read."""
    return tensor.strides not in (None, (1,)) and array.ndim == 1 and array.size > 1 and array.flags.c_contiguous
