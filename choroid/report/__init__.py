"""`choroid report`: what became of a rig in a period, for people: HTML that prints well, text, JSON."""
