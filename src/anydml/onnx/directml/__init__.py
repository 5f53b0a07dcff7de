"""Translate nodes to the descs that ONNX Runtime's DirectML provider creates, one file per group of operators."""
