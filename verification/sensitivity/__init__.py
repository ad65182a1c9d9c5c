"""`choroid verify sensitivity`: how reliable the scores are."""
