"""`choroid demo`: a simulated rig with its page."""
