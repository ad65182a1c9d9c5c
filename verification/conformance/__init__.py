"""Score of the conformance kit, and the broken drivers and cards that it must notice."""
