"""From sums to statements: smoothers, curves, gaps between two sides, draws, and verdicts."""
