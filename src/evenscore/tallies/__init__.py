"""The counted state: cells of the score axis, sums over them, and what keeps, adds, thins and saves these."""
