"""Programs of the training environment: they import torch, numpy, safetensors, the standard library and each other only."""
