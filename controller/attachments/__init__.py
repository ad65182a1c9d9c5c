"""Photos and files that people give as answers: checked, kept by hash, listed in a manifest."""
