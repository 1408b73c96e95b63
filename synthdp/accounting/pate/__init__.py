"""What private aggregation of teachers (PATE) costs: one file per analysis, pure functions of counts of votes.

    lnmax       Laplace noise on counts, moments accountant            Papernot et al. 2017
    gnmax       Gaussian noise on counts, Renyi                        Papernot et al. 2018
    confident   the same behind a noisy threshold                      Papernot et al. 2018, section 4.1

Each analysis has two answers. `independent(...)` uses public numbers only and returns `DataIndependent`. `dependent(votes, ...)`
reads the votes and returns `DataDependent`: that number is itself private. Ledger, calibration, stopping and statement know
the data-independent one alone (law 8): they account the event `Vote`, by the accountants of `accounting/`, most of which
are tighter than the papers' own bounds here.
"""

from synthdp.accounting.pate import confident, gnmax, lnmax
from synthdp.accounting.pate.vote_counts import DataDependent, DataIndependent, checked, load

__all__ = ["DataDependent", "DataIndependent", "checked", "confident", "gnmax", "lnmax", "load"]
