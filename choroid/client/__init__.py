"""Clients of a running controller and of its electrode engine.

Nothing here imports another top-level package of this repository: these modules are also the distribution
`choroid-client` (see pyproject.toml in this folder), which a remote agent installs without the controller.
"""
