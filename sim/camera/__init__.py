"""A simulated camera: brightfield images of the plant's tissue."""
