"""`choroid compare`: several recipes on one rig."""
