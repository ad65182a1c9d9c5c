"""Task processes of the grid's boards: data and simulated tissue, with baselines and controls."""
