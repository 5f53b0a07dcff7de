"""Host memory and its limits, arrays on a device, tests for overlap, and memory of results."""
