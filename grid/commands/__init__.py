"""What `choroid grid …` executes."""
