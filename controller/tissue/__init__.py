"""The tissue in each chamber: what lives there, since when, and what people have moved."""
