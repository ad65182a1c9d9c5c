"""Parsers of `choroid grid`, and what they execute."""
