"""What each ONNX operator does, a file for each group of them; `anydml.onnx.table` lists them all.

A function here takes the node, what it asks for its inputs' elements (`Moving`), and its inputs. It checks them against
ONNX's document of the operator, and says what moves. It does not know whether the graph runs.
"""
