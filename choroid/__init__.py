"""The front door: the `choroid` command, and `import choroid` for scripts."""
