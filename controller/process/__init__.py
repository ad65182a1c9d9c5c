"""The running controller: one tick after another."""
