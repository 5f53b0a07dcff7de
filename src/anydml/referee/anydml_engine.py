"""anydml as an engine under judgement: its backend and functions, or descs on one of its devices."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anydml.errors import ModelError
from anydml.referee.external_engines import RunResult, written_outputs

DESC = "a desc"
"""The note on a case that was run by one of DirectML's operators."""


class Anydml:
    """anydml: without a device, or with one that runs the descs of cases.

    Args:
        device: a device's name, such as ``"reference"``: it runs the descs of cases of ONNX and WebNN, and the models
            of DxDispatch; cases without a desc are run as without a device. If empty, the backend runs cases of ONNX,
            and functions on arrays run those of WebNN.

    Attributes:
        version: the engine's name and version.
        way: how the last case was run, or why there is no desc for it; empty without a device.

    Raises:
        ModelError: the device cannot read host memory, which has the cases.
        ValueError: there is no such device.
    """

    def __init__(self, device: str = "") -> None:
        import onnx

        from anydml._version import __version__
        from anydml.device import Device
        from anydml.onnx import backend

        if device.startswith("cuda") and not os.environ.get("TRITON_INTERPRET"):
            rule = "TRITON_INTERPRET=1 runs its kernels on host memory"
            raise ModelError("a GPU cannot be given cases, which are in host memory", rule=rule)
        self.version = f"anydml {__version__}" + (f" on {device}" if device else "")
        self.way = ""
        self._device = Device(device) if device else None
        self._load, self._backend = onnx.load, backend

    def run(self, model: Path, inputs: Sequence[Any]) -> list[Any]:
        """Run a model."""
        self.way = ""
        loaded = self._load(model)
        if self._device is None:
            return list(self._backend.prepare(loaded).run(list(inputs)))
        from anydml.referee.by_descs import NoDescError, outputs_by_desc, with_constants

        try:
            with_inputs = with_constants(loaded, inputs)
            outputs = outputs_by_desc(self._device, with_inputs, {})
        except NoDescError as error:
            self.way = f"the backend: {error}"
            return list(self._backend.prepare(loaded).run(list(inputs)))
        self.way = DESC
        names = [value_info.name for value_info in loaded.graph.output]
        if outputs.keys() < {*names}:
            # The host knows the lengths of parts, which are sizes.
            self.way += ", and lengths by the backend"
            outputs = {**dict(zip(names, self._backend.prepare(with_inputs).run([]), strict=True)), **outputs}
        return [outputs[name] for name in names]

    def run_dxdispatch(self, model: Path) -> RunResult:
        """Run a model file of DxDispatch in a copy of its folder, since it writes files there."""
        from anydml import dxdispatch

        lines: list[str] = []
        device = "cpu" if self._device is None else self._device.name
        self.way = "" if self._device is None else DESC
        with tempfile.TemporaryDirectory() as results:
            copied = Path(results) / "case"
            shutil.copytree(model.parent, copied, ignore=shutil.ignore_patterns("output_*", "expected_*"))
            loaded = dxdispatch.load(copied / model.name)
            dxdispatch.run(loaded, device=device, log=lines.append, warn=lambda line: None)
            return RunResult(written_outputs(copied), "\n".join(lines))

    def run_webnn(self, test: Mapping[str, Any], path: Path, test_number: int) -> list[Any]:
        """Run a test of WebNN."""
        from anydml.referee.webnn import run_graphs

        graph = test["graph"]
        if self._device is None:
            return run_graphs.run(graph)
        from anydml.referee.by_descs import NoDescError

        try:
            self.way = "the steps of WebNN"
            outputs = run_graphs.run_by_desc(self._device, test)
        except NoDescError as error:
            self.way = f"functions: {error}"
            return run_graphs.run(graph)
        self.way = DESC
        return outputs
