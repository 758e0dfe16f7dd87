"""Repairing scores: a map for each group from the score to the outcome that it stands for."""
