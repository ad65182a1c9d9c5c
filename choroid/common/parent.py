"""The environment by which `choroid run` and its parent (:mod:`choroid.running.parent`) know each other."""

LINK, RESTARTED = "CHOROID_PARENT", "CHOROID_RESTARTED"
"""The descriptor for the controller's reports, and why it was started again."""
