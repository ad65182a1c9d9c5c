"""What the verbs of `choroid verify` accept."""
