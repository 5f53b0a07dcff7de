"""Two devices in host memory for JAX, which reads this when it is first imported; and what can be tested here."""

import importlib.util
import os

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"

NEEDED = {"test_jax.py": ["jax"], "test_torch.py": ["torch"], "test_on_device.py": ["torch", "triton"]}
"""What files cannot be imported without."""


def pytest_ignore_collect(collection_path):
    """Leave out what cannot be imported."""
    if not all(map(importlib.util.find_spec, NEEDED.get(collection_path.name, ()))):
        return True
    return None
