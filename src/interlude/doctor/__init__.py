"""The doctor: what is wrong with a folder of images, in plain words, before anything is trained on it."""

from interlude.doctor.diagnosis import Diagnosis, Finding
from interlude.doctor.examine import examine

__all__ = ["Diagnosis", "Finding", "examine"]
