"""Fixtures: a server that supports initial events, and the path of the events of a namespace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.apiserver.conftest import Server
from tests.integration.apiserver.events_api.events import NEW


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Server that supports initial events of watches."""
    found = Server(tmp_path_factory.mktemp("events"), "--feature-gates=WatchList=true")
    yield found
    assert found.stop() == 0


@pytest.fixture
def events(namespace: str) -> str:
    """Path of the events of the namespace."""
    return f"{NEW}/namespaces/{namespace}/events"
