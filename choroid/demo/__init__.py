"""`choroid demo`: a simulated rig with its web page."""
