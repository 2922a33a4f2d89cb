"""Tests for the parsers of untrusted input with seeded mutations of the stored inputs.

The inputs change only with the corpus. A failure lists the input; ``python -m tests.fuzz --input FILE TARGET`` repeats
it.
"""

from __future__ import annotations

import pytest

from tests.fuzz import targets
from tests.fuzz.mutations import mutated
from tests.fuzz.target import TARGETS, check, strict

INPUTS = 400
targets.load()


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_mutated_inputs_violate_no_invariant(name):
    findings = {}
    with strict():
        for data in mutated(TARGETS[name], INPUTS):
            if (finding := check(TARGETS[name], data)) is not None:
                findings.setdefault(finding.cause, f"{data!r}\n{finding.text}")

    if findings:
        pytest.fail("\n".join(findings.values()), pytrace=False)
