"""The examples of DML_SPLIT_OPERATOR_DESC: as a desc on a device, and as a function on arrays."""

import numpy as np

import anydml as dml

INPUT = np.arange(1, 13, dtype=np.float32).reshape(1, 1, 6, 2)


def split_as_desc(axis: int, output_sizes: list[list[int]]) -> list[np.ndarray]:
    """Describe, compile, bind, dispatch."""
    desc = dml.SplitOperatorDesc(
        input_tensor=dml.TensorDesc("FLOAT32", INPUT.shape),
        output_tensors=[dml.TensorDesc("FLOAT32", sizes) for sizes in output_sizes],
        axis=axis,
    )
    outputs = [np.empty(sizes, np.float32) for sizes in output_sizes]
    operator = dml.Device("cpu").compile_operator(desc)
    operator.bind(inputs=[INPUT], outputs=outputs).dispatch()
    return outputs


def show(title: str, found: list[np.ndarray], expected: list[list]) -> None:
    """Print the outputs, and insist on the document's numbers."""
    print(title)
    for output, numbers in zip(found, expected, strict=True):
        np.testing.assert_array_equal(output, np.array(numbers, np.float32))
        print(output)


example_1 = [
    [[[[1, 2], [3, 4]]]],
    [[[[5, 6]]]],
    [[[[7, 8], [9, 10], [11, 12]]]],
]
show("Example 1. Splitting axis 2", split_as_desc(2, [[1, 1, 2, 2], [1, 1, 1, 2], [1, 1, 3, 2]]), example_1)
show("The same with dml.split", dml.split(INPUT, [2, 1, 3], axis=2), example_1)

example_2 = [
    [[[[1], [3], [5], [7], [9], [11]]]],
    [[[[2], [4], [6], [8], [10], [12]]]],
]
show("Example 2. Splitting axis 3", split_as_desc(3, [[1, 1, 6, 1], [1, 1, 6, 1]]), example_2)
show("The same with dml.split", dml.split(INPUT, 2, axis=3), example_2)
