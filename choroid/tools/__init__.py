"""Tools for devices: identify, talk, replay a capture, calibrate, test conformance."""
