"""Clock, state and versions: what every other package of the controller knows."""
