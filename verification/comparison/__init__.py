"""`choroid verify compare`: several recipes on one rig."""
