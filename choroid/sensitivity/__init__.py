"""`choroid sensitivity`: how far the scores can be trusted."""
