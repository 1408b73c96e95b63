"""Teachers on disjoint parts of the units, sealed: only noisy votes come out (Papernot et al. 2017, 2018)."""

from synthdp.seal.teachers.mean_embeddings import MeanEmbeddings
from synthdp.seal.teachers.network_teachers import Stacked
from synthdp.seal.teachers.sealed_teachers import Teachers, partitioned
from synthdp.seal.teachers.sklearn_teachers import Estimators

__all__ = ["Estimators", "MeanEmbeddings", "Stacked", "Teachers", "partitioned"]
