"""Checkpoints: tensors of sharded files, rules for them, and the parts that ranks have."""
