"""At-line analysers: their results, each once, on the way of the assays that people enter."""
