"""Teachers on disjoint parts of the units, sealed: only noisy votes come out (Papernot et al. 2017, 2018)."""

from synthdp.privacy.teachers.estimators import Estimators
from synthdp.privacy.teachers.handle import Teachers, partitioned
from synthdp.privacy.teachers.stacked import Stacked
from synthdp.privacy.teachers.witness import Witness

__all__ = ["Estimators", "Stacked", "Teachers", "Witness", "partitioned"]
