"""PATE for classification: teachers on sensitive records, noisy votes on public ones, a student that may leave the hospital."""

from synthdp.pate.classifier import Answers, Classifier, load, verify
from synthdp.pate.fit import PATE
from synthdp.pate.one_fit import Selection
from synthdp.pate.students.named_students import Estimator
from synthdp.pate.students.network import Network
from synthdp.pate.students.semi_supervised import SemiSupervised
from synthdp.pate.teaching import Networks
from synthdp.seal import Confident, Counts, GNMax, Interactive, LNMax, Shares

__all__ = [
    "PATE",
    "Answers",
    "Classifier",
    "Confident",
    "Counts",
    "Estimator",
    "GNMax",
    "Interactive",
    "LNMax",
    "Network",
    "Networks",
    "Selection",
    "SemiSupervised",
    "Shares",
    "load",
    "verify",
]
