"""Histories: a unit's records one after another, each drawn given what came before."""

import pytest

from synthdp import testing
from synthdp.generators.histories import HistoriesSettings
from synthdp.testing.made_up import SMALL


@pytest.mark.parametrize("check", testing.checks(HistoriesSettings(**SMALL["histories"]["histories"])), ids=str)
def test_the_contract(check):
    check()
