"""Accounts: the budget of one data set over all its fits, in a file that outlives every output folder (laws 25, 26)."""

from synthdp.privacy.accounts.entry import Entered, Entry, entered, warn_of_no_account
from synthdp.privacy.accounts.file import AccountFile
from synthdp.privacy.accounts.filters import Cap
from synthdp.privacy.accounts.standing import Fit, Standing

__all__ = ["AccountFile", "Cap", "Entered", "Entry", "Fit", "Standing", "entered", "warn_of_no_account"]
