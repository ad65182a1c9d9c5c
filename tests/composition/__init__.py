"""Rigs of other shapes than the shipped ones, through every command."""
