"""Grading of models: task processes, hidden seeds, the Ladder, agreement of two graders, and the store of results."""
