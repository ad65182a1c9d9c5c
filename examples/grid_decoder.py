"""Train a linear decoder on data of the board decode-stimulus, and write it as an ONNX file.

python grid_decoder.py model.onnx training-1.npz training-2.npz
"""

import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

PENALTY = 10.0


def train(spikes, stimulus):
    """Return the weights of a ridge regression; the last row is the constant."""
    rows = np.c_[spikes.reshape(len(spikes), -1), np.ones(len(spikes))].astype(float)
    targets = np.eye(int(stimulus.max()) + 1)[stimulus.astype(int)]
    return np.linalg.solve(rows.T @ rows + PENALTY * np.eye(rows.shape[1]), rows.T @ targets)


def export(weights, trials, bins, electrodes):
    """Return the ONNX file of logits = spikes · weights + constant, with the tensors of the board."""
    constants = {
        "shape": np.array([trials, bins * electrodes]),
        "weights": weights[:-1].astype(np.float32),
        "constant": weights[-1].astype(np.float32),
    }
    nodes = [
        helper.make_node("Reshape", ["spikes", "shape"], ["rows"]),
        helper.make_node("Gemm", ["rows", "weights", "constant"], ["logits"]),
    ]
    spikes = helper.make_tensor_value_info("spikes", TensorProto.FLOAT, [trials, bins, electrodes])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [trials, weights.shape[1]])
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "decoder", [spikes], [logits], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def decoder(paths):
    """Return a decoder that was trained on the files of `choroid grid data make`."""
    files = [np.load(path) for path in paths]
    spikes = np.concatenate([each["spikes"] for each in files])
    stimulus = np.concatenate([each["stimulus"] for each in files])
    return export(train(spikes, stimulus), *files[0]["spikes"].shape)


if __name__ == "__main__":
    with open(sys.argv[1], "wb") as file:
        file.write(decoder(sys.argv[2:]))
