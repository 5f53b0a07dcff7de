"""Compiling ahead: it names the kernels that common work needs."""

import pytest

import anydml as dml
from anydml.cli import main
from anydml.engines.cpu import warmup
from anydml.engines.cpu.kernels import launch, whole


def test_common_work_finds_its_kernels_compiled(monkeypatch):
    wanted = set()
    for _, load in warmup.kernels():
        wanted.add((load.func.__name__, load.args) if hasattr(load, "func") else (load.__name__, ()))
    for axis, parts in ((1, [1] * 3), (1, [2, 2])):
        shape = (50_000, sum(parts))
        pieces = [dml.TensorDesc(dml.DataType.FLOAT32, (shape[0], part)) for part in parts]
        desc = dml.SplitOperatorDesc(dml.TensorDesc(dml.DataType.FLOAT32, shape), pieces, axis)
        for step in dml.Device("cpu").compile_operator(desc)._program.steps:
            if sum(parts) == 3:
                assert (step.load.func.__name__, step.load.args) in wanted
    names = {name for name, _ in wanted}
    assert names == {
        *(
            "launch",
            "shared_bytes",
            "prepare",
            "reader",
            "repeat",
            "several_kernel",
            "rows_kernel",
            "row_blocks_kernel",
            "fill_kernel",
            "nonzero_kernel",
            "select_kernel",
            "elements_kernel",
            "lines_kernel",
            "interleave_kernel",
            "pixels_kernel",
            "turn_kernel",
            "table_kernel",
        )
    }


def test_what_calls_take_is_compiled():
    for what, compile_it in warmup.kernels():
        if what == "calls":
            compile_it()
    for made in (whole.whole, launch.launch):
        assert made.cache_info().currsize


def test_the_command_says_how_many(monkeypatch, capsys):
    done = []
    monkeypatch.setattr(
        warmup, "kernels", lambda: iter([("one", lambda: done.append(1)), ("two", lambda: done.append(2))])
    )
    with pytest.raises(SystemExit) as end:
        main(["warmup"])
    assert not end.value.code
    assert done == [1, 2]
    assert capsys.readouterr().out.startswith("2 kernels are ready after ")
