"""Repairing scores: a map for each group from the score to the outcome that it stands for."""

from evenscore.calibration.calibrator import Applied, Calibrator
from evenscore.calibration.fitting import calibrate
from evenscore.calibration.maps import GroupMap, cell_curves

__all__ = ["Applied", "Calibrator", "GroupMap", "calibrate", "cell_curves"]
