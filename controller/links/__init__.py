"""Connection of devices, and the owner of a data folder."""
