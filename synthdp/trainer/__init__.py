"""Any torch module, trained on sensitive records by DP-SGD: budget in, a module that may leave the hospital out."""

from synthdp.trainer.inputs import array_schema
from synthdp.trainer.private_trainer import PrivateTrainer
from synthdp.trainer.trained import Trained, load, verify

__all__ = ["PrivateTrainer", "Trained", "array_schema", "load", "verify"]
