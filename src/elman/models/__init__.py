"""Models that a person uses."""

from elman.models.copies import CopyReport
from elman.models.evaluation import Evaluation
from elman.models.language_model import LanguageModel
from elman.models.sampling import Sampling

__all__ = ["CopyReport", "Evaluation", "LanguageModel", "Sampling"]
