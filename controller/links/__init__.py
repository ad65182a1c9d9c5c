"""Connection of devices, and ownership of a data folder."""
