"""`choroid fit`: plant parameters from a laboratory's own records, and how well the twin predicts them."""
