"""Recordings as NWB files, joined with the rig's environment on the array's clock."""
