"""Models in the JSON format of DirectML's DxDispatch: resources, dispatchables, commands.

>>> from anydml import dxdispatch
>>> model = dxdispatch.load("split.json")
>>> contents = dxdispatch.run(model, log=lambda line: None)
>>> contents["Out1"].tolist()
[1.0, 2.0, 3.0, 4.0]

The format is that of DxDispatch's guide (microsoft/DirectML, DxDispatch/doc/Guide.md). Where DxDispatch's parser or
executor differs from the guide, this package follows the code.
"""

from __future__ import annotations

from anydml.dxdispatch.model import Model, load
from anydml.dxdispatch.runner import run
from anydml.dxdispatch.timing import Timing

__all__ = ["Model", "Timing", "load", "run"]
