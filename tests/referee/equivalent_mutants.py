"""Mutants of the referee's formulas that no valid case can show, by why none can."""

_BY_REASON: dict[str, tuple[str, ...]] = {
    "there is at most one input": (
        "optional_values: return any((isinstance(each, OptionalValue) and each.element is None for each in "
        "node.inputs))  →  return all((isinstance(each, OptionalValue) and each.element is None for each in "
        "node.inputs))",
    ),
    "the position is required": (
        "sequences: return [_listed(node)[_position(node, 1, 0)]]  →  return [_listed(node)[_position(node, 1, 1)]]",
    ),
    "all inputs have one type": ("making_values: dtype = node.array(0).dtype  →  dtype = node.array(1).dtype",),
    "Python's slices end with the list": (
        "making_values: first, last = (min(max(n + rank if n < 0 else n, 0), rank) for n in (start, end))  →  "
        "first, last = (max(n + rank if n < 0 else n, 0) for n in (start, end))",
    ),
    "NumPy infers a size from any negative number, and the value has one element": (
        "making_values: return [Result(tuple(node.integers(0)), value.dtype, lambda at: "
        "Constant(value.reshape(-1)[0]))]  →  return [Result(tuple(node.integers(0)), value.dtype, lambda at: "
        "Constant(value.reshape(+1)[0]))]",
        "making_values: return [Result(tuple(node.integers(0)), value.dtype, lambda at: "
        "Constant(value.reshape(-1)[0]))]  →  return [Result(tuple(node.integers(0)), value.dtype, lambda at: "
        "Constant(value.reshape(-2)[0]))]",
    ),
    "a slice that ends where it starts, or before, is empty": (
        "making_values: return [numbers([*x.shape][first:last] if first < last else [])]  →  return "
        "[numbers([*x.shape][first:last] if first <= last else [])]",
        "making_values: return [numbers([*x.shape][first:last] if first < last else [])]  →  return "
        "[numbers([*x.shape][first:last])]",
    ),
    "only its first element is read": (
        "making_values: value = node.attributes.get('value', np.zeros(1, np.float32))  →  value = "
        "node.attributes.get('value', np.zeros(2, np.float32))",
    ),
    "a place is the remainder of the number of elements": ("nodes: found = 0  →  found = 1",),
    "where the sizes are equal, both sides are 0": (
        "padding: before = [(new - old) // 2 if new > old else -((old - new) // 2) for old, new in zip(x.shape, "
        "shape, strict=True)]  →  before = [(new - old) // 2 if new >= old else -((old - new) // 2) for old, new "
        "in zip(x.shape, shape, strict=True)]",
    ),
    "a mode that removes is ambiguous, and the results are those of a reading; in constant mode only what is "
    "inside counts": (
        "padding: first = max(0, -before) if is_cut_first else 0  →  first = 0",
        "padding: first = max(0, -before) if is_cut_first else 0  →  first = 0 if is_cut_first else 0",
        "padding: first = max(0, -before) if is_cut_first else 0  →  first = max(0, -before)",
        "padding: first = max(0, -before) if is_cut_first else 0  →  first = max(0, -before) if is_cut_first else 1",
        "padding: first = max(0, -before) if is_cut_first else 0  →  first = max(0, -before) if not is_cut_first "
        "else 0",
        "padding: left = size - first - (max(0, -after) if is_cut_first else 0)  →  left = size - first + "
        "(max(0, -after) if is_cut_first else 0)",
        "padding: left = size - first - (max(0, -after) if is_cut_first else 0)  →  left = size - first - (0 if "
        "is_cut_first else 0)",
        "padding: left = size - first - (max(0, -after) if is_cut_first else 0)  →  left = size - first - "
        "(max(0, -after) if is_cut_first else 1)",
        "padding: left = size - first - (max(0, -after) if is_cut_first else 0)  →  left = size - first - "
        "(max(0, -after) if not is_cut_first else 0)",
        "padding: left = size - first - (max(0, -after) if is_cut_first else 0)  →  left = size - first - 0",
        "padding: left = size - first - (max(0, -after) if is_cut_first else 0)  →  left = size - first - max(0, "
        "-after)",
    ),
    "the constant is a scalar, which has no axes": (
        "padding: return fill or (2, (0,) * node.array(2).ndim)  →  return fill or (2, (1,) * node.array(2).ndim)",
    ),
    "there is no such attribute since opset 13": (
        "concat_split: if node.opset < 13 and 'split' in node.attributes:  →  if node.opset < 14 and 'split' in "
        "node.attributes:",
        "concat_split: if node.opset < 13 and 'split' in node.attributes:  →  if node.opset <= 13 and 'split' in "
        "node.attributes:",
    ),
    "a split whose parts would be below 0 is ambiguous, and one reading refuses it": (
        "concat_split: return [max(0, min(most, size - k * most)) for k in range(node.outputs)]  →  return [min(most, "
        "size - k * most) for k in range(node.outputs)]",
    ),
    "broadcasting does not depend on the order": (
        "repeating: shape = broadcast(x.shape, tuple(node.integers(1)))  →  shape = "
        "broadcast(tuple(node.integers(1)), x.shape)",
    ),
    "a product does not depend on the order": (
        "repeating: shape = tuple((size * times for size, times in zip(x.shape, node.integers(1), strict=True))) "
        " →  shape = tuple((size * times for size, times in zip(node.integers(1), x.shape, strict=True)))",
    ),
    "what stands outside of strings is not said, so none are cropped": (
        "resized_axes: fill = Constant('' if x.dtype.hasobject else value.astype(x.dtype)[()])  →  fill = "
        "Constant(value.astype(x.dtype)[()])",
    ),
    "only tf_crop_and_resize reads the region, and has one": (
        "resized_axes: region = (Fraction(0), Fraction(1))  →  region = (Fraction(0), Fraction(0))",
        "resized_axes: region = (Fraction(0), Fraction(1))  →  region = (Fraction(0), Fraction(2))",
        "resized_axes: region = (Fraction(0), Fraction(1))  →  region = (Fraction(1), Fraction(0))",
        "resized_axes: region = (Fraction(0), Fraction(1))  →  region = (Fraction(1), Fraction(1))",
    ),
    "the result is that of another reading": (
        "resized_axes: self.corners, self.resized = (target, Fraction(count))  →  self.corners, self.resized = "
        "(Fraction(count), target)",
    ),
    "sizes are whole, so that the stretched length is, too": (
        "resized_axes: size = math.floor(target) if is_by_scale else math.floor(target + HALF) if policy != "
        "'stretch' else int(target)  →  size = math.floor(target + HALF) if policy != 'stretch' else int(target)",
        "resized_axes: size = math.floor(target) if is_by_scale else math.floor(target + HALF) if policy != "
        "'stretch' else int(target)  →  size = math.floor(target) if is_by_scale else math.floor(target + HALF)",
    ),
    "Python's slices count from the end, too": (
        "shaping: axis = wrap_index(node.attribute('axis'), x.ndim)  →  axis = node.attribute('axis')",
    ),
    "every axis is set": ("shaping: there = [0] * x.ndim  →  there = [1] * x.ndim",),
    "what lies between the ends is counted, and not below 0": (
        "slicing: first, last = (min(max(first, 0), size - 1), min(max(last, -1), size - 1))  →  first, last = "
        "(min(max(first, 0), size - 1), max(last, -1))",
        "slicing: first, last = (min(max(first, 0), size - 1), min(max(last, -1), size - 1))  →  first, last = "
        "(min(max(first, 0), size - 1), min(max(last, -1), size + 1))",
        "slicing: first, last = (min(max(first, 0), size - 1), min(max(last, -1), size - 1))  →  first, last = "
        "(min(max(first, 0), size - 1), min(max(last, -1), size - 0))",
        "slicing: first, last = (min(max(first, 0), size), min(max(last, 0), size))  →  first, last = "
        "(max(first, 0), min(max(last, 0), size))",
        "slicing: first, last = (min(max(first, 0), size), min(max(last, 0), size))  →  first, last = "
        "(min(max(first, 0), size), min(last, size))",
    ),
    "no step is 0": ("slicing: if step > 0:  →  if step >= 0:",),
    "the batch of the update is that of the cache": (
        "writing_over: x, update, starts = (node.array(0), node.array(1), node.integers(2) or [0] * "
        "node.array(0).shape[0])  →  x, update, starts = (node.array(0), node.array(1), node.integers(2) or [0] "
        "* node.array(1).shape[0])",
    ),
}

EQUIVALENT = {mutant: reason for reason, mutants in _BY_REASON.items() for mutant in mutants}
"""Why, by the mutant's name."""
