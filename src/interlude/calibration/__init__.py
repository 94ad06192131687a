"""What makes a classifier's answers honest: probabilities that hold, sets of classes, what is unusual."""

from interlude.calibration.calibration import COVERAGE, Calibration, Verdicts, calibrate
from interlude.calibration.conformal import highest_coverage, needed, set_threshold, sets
from interlude.calibration.temperature import fit_temperature, log_loss
from interlude.calibration.unusual import Usual

__all__ = [
    "COVERAGE",
    "Calibration",
    "Usual",
    "Verdicts",
    "calibrate",
    "fit_temperature",
    "highest_coverage",
    "log_loss",
    "needed",
    "set_threshold",
    "sets",
]
