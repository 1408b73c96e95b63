"""The errors that CI grants its audits add up to 1e-3 or less (law 27)."""

import ast
from pathlib import Path

import gate
from test_black_box import JUDGED
from test_door import FULL, NOTHING, PART

PARAMETERS = {
    "test_no_generator_leaks_more_than_it_claims": len(JUDGED),
    "test_the_door_keeps_its_claim_and_the_audit_comes_near_it": len(FULL),
    "test_the_door_keeps_its_claim_and_the_audit_finds_a_part": len(PART) + 1,
    "test_the_door_draws_other_noise_after_a_stop": len(NOTHING),
}


def test_no_more_true_claims_are_gated_than_the_error_is_shared_among():
    gated, counted = 0, set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            text = ast.unparse(node)
            if isinstance(node, ast.FunctionDef) and "assert not" in text and "contradicted" in text:
                gated += PARAMETERS.get(node.name, 1)
                counted.add(node.name)
    assert counted >= set(PARAMETERS)
    assert sum(PARAMETERS.values()) + 3 <= gated <= gate.AUDITS
    assert gate.AUDITS * gate.GATE_ERROR <= 1e-3
