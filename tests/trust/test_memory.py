"""Where there is not enough memory, that is said before anything is written."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from anydml import ModelError, dxdispatch
from anydml.dxdispatch.printing import CONVERTED_ELEMENTS, MAX_TEXT, MAX_VERBOSE_TEXT, format_elements, format_verbose
from anydml.dxdispatch.schedule import schedule
from anydml.memory import limits
from trust.children import environment

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is limited in Linux' way")


def model(path, commands, count=1000, data_type="INT8"):
    values = {"valueCount": count, "value": 1}
    resources = {"A": {"initialValuesDataType": data_type, "initialValues": values}}
    path.write_text(json.dumps({"resources": resources, "dispatchables": {}, "commands": commands}))
    return path


PRINT = {"type": "print", "resource": "A"}
WRITE = {"type": "writeFile", "resource": "A", "targetPath": "a.bin"}


@pytest.mark.parametrize(("verbose", "text"), [(False, MAX_TEXT), (True, MAX_VERBOSE_TEXT)])
def test_a_print_that_does_not_fit_is_refused_before_the_first_command(verbose, text, tmp_path, monkeypatch):
    loaded = dxdispatch.load(model(tmp_path / "m.json", [WRITE, {**PRINT, "verbose": verbose}]))
    needed = 1000 + 2 * 1000 * text
    assert schedule(loaded).bytes_needed == needed
    monkeypatch.setattr(limits, "available_memory", lambda: needed - 1)
    with pytest.raises(ModelError, match="are available"):
        dxdispatch.run(loaded, log=lambda line: None)
    assert not (tmp_path / "a.bin").exists()
    monkeypatch.setattr(limits, "available_memory", lambda: needed)
    dxdispatch.run(loaded, log=lambda line: None)
    assert (tmp_path / "a.bin").read_bytes() == b"\1" * 1000


@pytest.mark.parametrize(
    "elements",
    [np.array([-1.23457e-300] * 3), np.array([-(2**63)] * 3), np.array([2**64 - 1] * 3, "u8"), -np.ones(3) * np.nan],
)
def test_no_text_is_longer_than_promised(elements):
    assert len(format_elements(elements)) <= 3 * MAX_TEXT
    assert len(format_verbose(elements)) <= 3 * MAX_VERBOSE_TEXT


@pytest.mark.parametrize(
    "count", [CONVERTED_ELEMENTS - 1, CONVERTED_ELEMENTS, CONVERTED_ELEMENTS + 1, 3 * CONVERTED_ELEMENTS]
)
def test_texts_made_piece_by_piece_are_one(count):
    elements = np.arange(count, dtype=np.int32)
    assert format_elements(elements) == ", ".join(map(str, range(count)))
    lines = format_verbose(elements).splitlines()
    assert len(lines) == count
    assert lines[CONVERTED_ELEMENTS - 2].startswith(
        f"[{CONVERTED_ELEMENTS - 2:{len(str(count))}}] {CONVERTED_ELEMENTS - 2} (0x"
    )


LIMITED = """
    import json, resource, sys
    import numpy as np
    import anydml
    from anydml import dxdispatch
    from anydml.memory import limits
    x = np.zeros(100 << 20, np.uint8)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20),) * 2)
"""


def limited(program, folder):
    """Run a program that may take 64 MiB more than 100 MiB for its array x."""
    program = textwrap.dedent(LIMITED) + textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@linux
def test_functions_without_memory_raise_and_write_nothing(tmp_path):
    limited(
        """
        for call in (
            lambda: anydml.split(x, [50 << 20, 50 << 20]),
            lambda: anydml.join([x, x]),
            lambda: anydml.slice1(x, [0], x.shape, [-1]),
            lambda: anydml.gather(x.reshape(-1, 1 << 20), [0] * 200),
        ):
            try:
                call()
            except MemoryError:
                assert not x.any()
            else:
                raise AssertionError("there was enough")
        assert anydml.slice1(x, [0], [1000], [-1]).size == 1000
        """,
        tmp_path,
    )


@linux
def test_a_file_in_fortran_order_takes_no_second_copy(tmp_path):
    with (tmp_path / "f.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": True, "shape": (2, 20 << 20)})
        file.truncate(file.tell() + (40 << 20))
    resources = {"A": {"initialValues": {"sourcePath": "f.npy"}}}
    (tmp_path / "m.json").write_text(json.dumps({"resources": resources, "dispatchables": {}, "commands": []}))
    limited(
        """
        assert dxdispatch.run(dxdispatch.load("m.json"), log=lambda line: None)["A"].size == 40 << 20
        """,
        tmp_path,
    )


@linux
def test_models_without_memory_write_nothing(tmp_path):
    model(tmp_path / "m.json", [WRITE], count=200 << 20)
    limited(
        """
        limits.available_memory = lambda: None
        try:
            dxdispatch.run(dxdispatch.load("m.json"), log=lambda line: None)
        except anydml.ModelError as error:
            assert "209.72 MB cannot be allocated" in str(error), error
        else:
            raise AssertionError("there was enough")
        """,
        tmp_path,
    )
    assert [path.name for path in tmp_path.iterdir()] == ["m.json"]
