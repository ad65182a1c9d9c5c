"""`choroid sensitivity`: how reliable the scores are."""
