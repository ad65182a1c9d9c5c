"""The web page of a hub, as a process of its own: it only reads the hub's database."""
