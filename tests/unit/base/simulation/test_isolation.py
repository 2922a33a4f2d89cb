"""Tests for the isolation of a simulation from time and random numbers of the process."""

import os
import random
import secrets
import uuid
from types import SimpleNamespace

import pytest

from nodeagent.base.simulation.isolation import isolated

SOURCES = {
    "urandom": lambda: os.urandom(8),
    "uuid": lambda: str(uuid.uuid4()),
    "random": random.random,
    "system": lambda: random.SystemRandom().random(),
    "below": lambda: secrets.randbelow(1 << 64),
    "token": lambda: secrets.token_hex(8),
}


@pytest.mark.parametrize("source", SOURCES)
def test_random_numbers_depend_on_the_seed_only(source):
    def draw(seed):
        with isolated(seed, SimpleNamespace(time=float, stall=float), SimpleNamespace()):
            return [SOURCES[source]() for _ in range(3)]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    assert SOURCES[source]() != SOURCES[source]()
