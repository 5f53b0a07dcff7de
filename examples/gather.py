"""The examples of DML_GATHER_OPERATOR_DESC: as a desc on a device, and as a function on arrays.

The desc works on tensors whose dimension counts are padded to one; the function on arrays as they are.
"""

import numpy as np

import anydml as dml


def floats(values: list) -> np.ndarray:
    """An input."""
    return np.array(values, np.float32)


def gather_as_desc(
    values: np.ndarray, indices: np.ndarray, sizes: tuple[int, ...], axis: int, index_dimensions: int
) -> np.ndarray:
    """Describe, compile, bind, dispatch."""
    output = np.empty(sizes, np.float32)
    desc = dml.GatherOperatorDesc(
        input_tensor=dml.TensorDesc("FLOAT32", values.shape),
        indices_tensor=dml.TensorDesc("UINT32", indices.shape),
        output_tensor=dml.TensorDesc("FLOAT32", sizes),
        axis=axis,
        index_dimensions=index_dimensions,
    )
    operator = dml.Device("cpu").compile_operator(desc)
    operator.bind(inputs=[values, indices], outputs=[output]).dispatch()
    return output


def example(title: str, values: list, indices: list, axis: int, index_dimensions: int, expected: list) -> None:
    """Run an example as a desc, print its output, and insist on the document's numbers."""
    wanted = floats(expected)
    where = np.array(indices, np.uint32)
    found = gather_as_desc(floats(values), where, wanted.shape, axis, index_dimensions)
    np.testing.assert_array_equal(found, wanted)
    print(title, found, sep="\n")


rows = [[1, 2], [3, 4], [5, 6]]
square = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]

example("Example 1. 1D remapping", [11, 12, 13, 14], [3, 1, 3, 0, 2], 0, 1, [14, 12, 14, 11, 13])
example("Example 2. Axis 0, concatenate rows", rows, [[0, 1, 1, 2]], 0, 1, [[1, 2], [3, 4], [3, 4], [5, 6]])
example("Example 3. Axis 1, swap columns", rows, [[1, 0]], 1, 2, [[2, 1], [4, 3], [6, 5]])
example("Example 4. Axis 1, nested indices", [square], [[[0, 2]]], 2, 2, [[[1, 3]], [[4, 6]], [[7, 9]]])
example("Example 5. Axis 0, nested indices", [rows], [[[0, 1], [1, 2]]], 1, 2, [[[1, 2], [3, 4]], [[3, 4], [5, 6]]])

print("Examples 1 to 5 with dml.gather, without the padding")
for values, indices, axis, expected in (
    ([11, 12, 13, 14], [3, 1, 3, 0, 2], 0, [14, 12, 14, 11, 13]),
    (rows, [0, 1, 1, 2], 0, [[1, 2], [3, 4], [3, 4], [5, 6]]),
    (rows, [1, 0], 1, [[2, 1], [4, 3], [6, 5]]),
    (square, [[0, 2]], 1, [[[1, 3]], [[4, 6]], [[7, 9]]]),
    (rows, [[0, 1], [1, 2]], 0, [[[1, 2], [3, 4]], [[3, 4], [5, 6]]]),
):
    found = dml.gather(floats(values), np.array(indices, np.uint32), axis)
    np.testing.assert_array_equal(found, floats(expected))
    print(found.tolist())
