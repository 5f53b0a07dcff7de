"""What people write with anydml, as type checkers see it. A line with a mistake ends in its mark. Nothing is run."""

from typing import Any, TypeAlias, assert_type

import numpy as np

import anydml as dml
from anydml import stores

Floats: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.float32]]


class Tensor:
    """An array of another library."""

    shape: tuple[int, ...]
    dtype: str

    def only_tensors_have_this(self) -> None: ...


def arrays_are_what_they_were(x: Floats, indices: list[int]) -> None:
    assert_type(dml.copy(x), Floats)
    assert_type(dml.split(x, 2), list[Floats])
    assert_type(dml.split(x, [1, 2], axis=-1), list[Floats])
    assert_type(dml.join([x, x], axis=None), Floats)
    assert_type(dml.join((x, x)), Floats)
    assert_type(dml.stack([x]), Floats)
    assert_type(dml.gather(x, indices, 0, out_of_range="clamp"), Floats)
    assert_type(dml.pad(x, [1, 1], "edge"), Floats)
    assert_type(dml.where(x, x, x, out=x), Floats)
    assert_type(dml.concat_training([x])[0], Floats)
    assert_type(dml.compress([True], x), Floats)
    assert_type(dml.flip(dml.roll(x, 1)).dtype, np.dtype[np.float32])
    dml.split(x, 2, out=[x, x])


def tensors_too(x: Tensor) -> None:
    assert_type(dml.join([x, x]), Tensor)
    dml.copy(x).only_tensors_have_this()
    for part in dml.split(x, 2):
        part.only_tensors_have_this()


def mistakes(x: Floats, t: Tensor) -> None:
    dml.split(x, "a")  # wrong
    dml.split(x)  # wrong
    dml.pad(x, [1, 1], "edges")  # wrong
    dml.pad(x, 1)  # wrong
    dml.gather(x, [1], out_of_range="skip")  # wrong
    dml.scatter(x, [1], x, out_of_range="clamp")  # wrong
    dml.depth_to_space(x, 2, "row")  # wrong
    dml.join(x, 0, x)  # wrong
    dml.join([[1, 2]])  # wrong
    dml.copy(x).only_tensors_have_this()  # wrong
    dml.copy(t, out=3)  # wrong
    dml.flip(x, axis="0")  # wrong
    dml.no_such_function(x)  # wrong


@dml.fuse
def crop(x: Floats, top: int, *, flipped: bool = False) -> Floats:
    return x[top:, ::-1] if flipped else x[top:]


@dml.fuse
def both(x: Floats, y: Tensor) -> dict[str, Floats | list[Tensor]]:
    return {"x": x, "y": [y]}


def fused(x: Floats, t: Tensor) -> None:
    assert_type(crop(x, 3), Floats)
    assert_type(crop(x, top=3, flipped=True), Floats)
    assert_type(crop(x, 3, out=x), Floats)
    assert_type(both(x, t), dict[str, Floats | list[Tensor]])
    crop.explain(x, 3)
    dml.fuse(lambda x: x.T)(x)


def fused_mistakes(x: Floats, t: Tensor) -> None:
    crop(x)  # wrong
    crop(x, 3, True)  # wrong
    crop(x, "3")  # wrong
    crop(t, 3)  # wrong
    crop(x, 3, flip=True)  # wrong
    both(x, x)  # wrong
    crop(x, 3).only_tensors_have_this()  # wrong
    dml.fuse(3)  # wrong


def descs(x: dml.TensorDesc) -> None:
    desc = dml.SplitOperatorDesc(x, [x, dml.TensorDesc("float32", [4])], 0)
    assert_type(desc.output_tensors, tuple[dml.TensorDesc, ...])
    assert_type(desc.axis, int)
    desc.check("3_0")
    for problem in desc.problems(dml.FeatureLevel.LATEST):
        assert_type(problem.needs, dml.FeatureLevel | None)
    assert_type(dml.Device("cpu").compile_operator(desc).desc, dml.OperatorDesc)


def mistakes_of_descs(x: dml.TensorDesc) -> None:
    dml.SplitOperatorDesc(x, x, 0)  # wrong
    dml.SplitOperatorDesc(x, [x], axis="0")  # wrong
    dml.SplitOperatorDesc(x, [x])  # wrong
    dml.SplitOperatorDesc(x, [x], 0).axis = 1  # wrong
    dml.TensorDesc("FLOAT32", 4)  # wrong
    dml.TensorDesc("FLOAT", [4])  # wrong
    dml.SplitOperatorDesc(x, [x], 0).check(3.0)  # wrong


def files() -> None:
    assert_type(stores.rechunk("a.zarr", "b.zarr", chunks=[1, 2], zarr_format=3), stores.Plan)
    assert_type(stores.reshard(["a"], "b", ranks={"tp": 2}), stores.Plan)
    assert_type(stores.convert("a", "b", to="vllm"), stores.Plan)
    assert_type(stores.verify("a", "b"), str | None)
    stores.rechunk("a.npy", "b.npy", permute=[1, 0]).run(progress=True)


def mistakes_of_files() -> None:
    stores.rechunk("a.zarr", "b.zarr", chunks="1,2")  # wrong
    stores.rechunk("a.zarr", "b.zarr", zarr_format=4)  # wrong
    stores.convert("a", "b", to="vlm")  # wrong
    stores.verify("a", "b", to="vlm")  # wrong
    stores.reshard(["a"], "b", ranks=["tp"])  # wrong
    stores.rechunk("a.npy", "b.npy").start()  # wrong
