"""Command-line parsers, grouped by subject; each command's implementation is imported only when it runs."""
