"""Run the model of an unknown author: an ONNX graph, checked and then executed in a locked process (docs/sandbox.md).

This package imports nothing else of Choroid, so that the engine and the grid can both use it. It needs the extra `agents`.
"""
