"""Fixtures of the tests of simulations."""

import pytest

from .host import Host


@pytest.fixture
def host(tmp_path):
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    return Host(manifests)
