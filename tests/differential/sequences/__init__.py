"""Generated scenarios, from a seed: one module per subject. No I/O."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from tests.differential.scenarios import Scenario
from tests.differential.sequences import (
    applies,
    decoding,
    deletions,
    life,
    lists,
    patches,
    pods,
    subresources,
)
from tests.differential.sequences.script import Script

_SEED = 1
_SEQUENCES: tuple[tuple[Callable[[Script, random.Random], None], int], ...] = (
    *life.SEQUENCES,
    *lists.SEQUENCES,
    *deletions.SEQUENCES,
    *applies.SEQUENCES,
    *patches.SEQUENCES,
    *decoding.SEQUENCES,
    *subresources.SEQUENCES,
    *pods.SEQUENCES,
)
"""Each sequence with the number of its variations."""


def generate(seed: int = _SEED) -> Iterator[Scenario]:
    """Yield the scenarios, the same for the same *seed*."""
    for sequence, count in _SEQUENCES:
        subject = sequence.__module__.rpartition(".")[2]
        for number in range(count):
            name = f"{subject}-{sequence.__name__.replace('_', '-')}-{number}"
            script = Script()
            sequence(script, random.Random(f"{name}:{seed}"))
            yield Scenario(name, script.steps)
