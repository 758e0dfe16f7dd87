"""Several scores and outcomes at once: calibrated in every part and in every blend."""
