"""Audits that run fits: what an attacker measures on this very code. The statistics are in `synthdp.evaluate.audit`."""
