"""Checkpoints: tensors in sharded files, layout rules, and the parts of ranks."""
