"""The recipes of docs/adding.md, followed in a copy of the tree."""
