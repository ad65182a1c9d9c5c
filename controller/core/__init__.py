"""Clock, state and versions: the base of all other packages of the controller."""
