"""The benchmark of data loaders' streams: all streams give the function's results, and what is measured is kept."""

import json
import warnings

import numpy as np
import pytest

import anydml as dml
from anydml.core import fusing
from benchmarks import loader_streams
from benchmarks.loader_cases import STREAMS, Draw

FLAGS = ("bools", "rotations", "1 to 40")
"""Parts of the names of streams whose traces do not repeat."""


@pytest.mark.skipif(fusing is None, reason="without the compiled core, every call is traced")
@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_streams_are_traced_seldom(stream):
    fused, draw = dml.fuse(stream.function), Draw(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range(12):
            arguments = stream.make(draw)
            found, expected = fused(*arguments), stream.function(*arguments)
            one, other = ([*each.values()] if isinstance(each, dict) else each for each in (found, expected))
            for array, right in zip(one, other, strict=True):
                np.testing.assert_array_equal(array, right)
    assert fused.counts.traces <= 3
    assert (fused.counts.unfused > 0) == any(each in stream.name for each in FLAGS)


def test_a_wrong_result_is_told():
    calls = []

    def shorter(images, *_):
        calls.append(1)
        return images[0][len(calls) :]

    with pytest.raises(SystemExit, match="the fused function's result differs"):
        loader_streams.measured(STREAMS[0]._replace(function=shorter), 1)


def test_what_is_measured_is_kept(tmp_path, capsys):
    kept = tmp_path / "streams.json"
    assert loader_streams.main(["--case", "a window", "--calls", "3", "--json", str(kept)]) == 0
    assert "1 streams" in capsys.readouterr().out
    (stream,) = json.loads(kept.read_text())["streams"]
    assert (stream["name"], sorted(stream["mean"]), stream["traces"]) == ("a window", ["anydml", "numpy"], 1)
