"""Implementations of the ONNX operators, one file per group; `anydml.onnx.table` lists all of them.

Each function takes a node, a `LoweringContext` and the inputs. It checks the inputs against ONNX's document of the
operator, and composes the results. The context determines whether the graph runs, is traced, or is only analysed.
"""
