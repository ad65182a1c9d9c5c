"""The physics that the simulated devices read and move."""
