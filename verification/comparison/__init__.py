"""`choroid verify comparison`: several recipes on one rig."""
