"""Rules that linked tables keep by excluding combinations: which these are, and that no draw breaks them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from linked_clinic import CODES, LAB, PERSON, VISIT, clinic, schema

from synthdp import Budget, Schema, Synthesizer
from synthdp.errors import BadInput
from synthdp.evaluate.linked import _broken_by_rows
from synthdp.generators.histories import HistoriesSettings
from synthdp.schema import table_review
from synthdp.schema.joined_tables import joined, rows_of
from synthdp.schema.linked_tables import of_rows
from synthdp.schema.rule_rows import broken
