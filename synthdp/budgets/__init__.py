"""Accounts: the budget of one data set over all its fits, in a file that outlives every output folder (laws 25, 26)."""

from synthdp.budgets.entry import Entry, entered, warn_of_no_account, warn_of_others
from synthdp.budgets.file import AccountFile
from synthdp.budgets.filters import Cap, Entered
from synthdp.budgets.standing import Fit, Standing

__all__ = [
    "AccountFile",
    "Cap",
    "Entered",
    "Entry",
    "Fit",
    "Standing",
    "entered",
    "warn_of_no_account",
    "warn_of_others",
]
