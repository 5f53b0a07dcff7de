"""What nodes are in DirectML: the desc that ONNX Runtime's DirectML provider would make, by groups of operators."""
