"""What a lab does: the language, the recipes, grading of media, viability."""
