"""One file a device, over one transport layer."""
