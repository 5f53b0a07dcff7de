"""Without PyTorch one test here says so, and the other files, which import it, are not read."""

import importlib.util


def pytest_ignore_collect(collection_path):
    """Leave out what cannot be imported."""
    if importlib.util.find_spec("torch") is None and collection_path.name not in ("test_installed.py", "torch_door"):
        return True
    return None
