"""What was asked: events as frozen values, and the append-only ledger that books them before they are answered."""
