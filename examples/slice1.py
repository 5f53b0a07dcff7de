"""The examples of DML_SLICE1_OPERATOR_DESC: as a desc on a device, and as a function on arrays."""

import numpy as np

import anydml as dml

INPUT = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
OFFSETS, SIZES = [0, 0, 0, 1], [1, 1, 4, 3]


def slice1_as_desc(strides: list[int]) -> np.ndarray:
    """Describe, compile, bind, dispatch."""
    output = np.empty([1, 1, 2, 2], np.float32)
    desc = dml.Slice1OperatorDesc(
        input_tensor=dml.TensorDesc("FLOAT32", INPUT.shape),
        output_tensor=dml.TensorDesc("FLOAT32", output.shape),
        input_window_offsets=OFFSETS,
        input_window_sizes=SIZES,
        input_window_strides=strides,
    )
    operator = dml.Device("cpu").compile_operator(desc)
    operator.bind(inputs=[INPUT], outputs=[output]).dispatch()
    return output


def show(title: str, found: np.ndarray, expected: list) -> None:
    """Print the output, and insist on the document's numbers."""
    np.testing.assert_array_equal(found, np.array(expected, np.float32))
    print(title, found, sep="\n")


example_1 = [[[[2, 4], [10, 12]]]]
show("Example 1. Strided slice with positive strides", slice1_as_desc([1, 1, 2, 2]), example_1)
show("The same with dml.slice1", dml.slice1(INPUT, OFFSETS, SIZES, [1, 1, 2, 2]), example_1)

example_2 = [[[[14, 16], [6, 8]]]]
show("Example 2. Strided slice with negative strides", slice1_as_desc([1, 1, -2, 2]), example_2)
show("The same with dml.slice1", dml.slice1(INPUT, OFFSETS, SIZES, [1, 1, -2, 2]), example_2)
