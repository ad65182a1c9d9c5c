"""Recordings of the electrode array: lossless, in Zarr stores, written by a process of their own."""
