"""com.microsoft SplitTraining, whose sizes are data at run time, and ConcatTraining, its inverse."""

import numpy as np

import anydml as dml

values = np.arange(1, 13, dtype=np.int64).reshape(6, 2)

print("Sizes that are known at run time only")
parts = dml.split_training(values, np.array([2, 1, 3]), axis=0)
for part, expected in zip(parts, ([[1, 2], [3, 4]], [[5, 6]], [[7, 8], [9, 10], [11, 12]]), strict=True):
    np.testing.assert_array_equal(part, np.array(expected))
    print(part)

print("An empty split makes equal parts, as many as there are outputs")
thirds = dml.split_training(values, [], axis=0, num_outputs=3)
np.testing.assert_array_equal(np.stack(thirds), values.reshape(3, 2, 2))
print([third.tolist() for third in thirds])

print("ConcatTraining puts them together, and says how to take them apart again")
joined, per_input_length = dml.concat_training(parts, axis=0)
np.testing.assert_array_equal(joined, values)
np.testing.assert_array_equal(per_input_length, [2, 1, 3])
print(per_input_length)
again = dml.split_training(joined, per_input_length, axis=0)
assert all(np.array_equal(a, b) for a, b in zip(again, parts, strict=True))
