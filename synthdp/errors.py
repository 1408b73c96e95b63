"""The one error that means: what the user gave cannot be used."""


class BadInput(ValueError):
    """A mistake in what the user gave, worded for them: what, where, and the remedy; never a cell's value.

    The command line prints it as one line and exits with status 2.
    """
