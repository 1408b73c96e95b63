"""The familywise error of all audits in CI (law 27): 1e-3, shared among them."""

AUDITS = 130  # at most this many claims are gated in tests/audit; tests/audit/test_gate.py counts them
GATE_ERROR = 1e-3 / AUDITS
DELTA = 1e-5
