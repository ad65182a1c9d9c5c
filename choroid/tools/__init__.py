"""Tools around the drivers: what is on a port, talk to a device, replay a capture, calibrate, try conformance."""
