"""Two devices in host memory for JAX: it reads this when it is first imported."""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
