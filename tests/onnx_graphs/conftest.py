"""Without ONNX or ONNX Runtime nothing here is read."""

import importlib.util


def pytest_ignore_collect(collection_path):
    """Leave out what cannot be imported."""
    if any(importlib.util.find_spec(each) is None for each in ("onnx", "onnxruntime")):
        return True
    return None
