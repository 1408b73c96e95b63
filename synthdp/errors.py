"""The one error that means: what the user gave cannot be used. And the one warning that users may want to silence by name."""


class BadInput(ValueError):
    """A mistake in what the user gave, worded for them: what, where, and the remedy; never a cell's value.

    The command line prints it as one line and exits with status 2.
    """


class NotEntered(UserWarning):
    """A fit of real records is entered in no account: what it spends is added to no other fit's."""
