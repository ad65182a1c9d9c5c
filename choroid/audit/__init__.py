"""Checkpoints of the journal: signed with a key outside the data folder, and kept elsewhere (`choroid audit`)."""
