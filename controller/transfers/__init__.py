"""Transfers: routes, weighing, and the decision whether a dose was delivered."""
