"""`choroid create`: write a rig file from the answers to a few questions."""
