"""Fixtures of the API client tests: a client and the bundled server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from nodeagent.apiclient import Client, connect
from nodeagent.base.aio import SystemClock
from nodeagent.testing.context import make_config
from tests.integration.programs import ApiServer
from tests.integration.reference import new_api_server

PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    executable = new_api_server(tmp_path_factory.mktemp("apiclient"))
    executable.start()
    yield executable
    executable.stop()


@pytest.fixture(params=["application/json", PROTOBUF])
async def client(server: ApiServer, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    config = make_config(content_type=request.param, platform_api_qps=1000, platform_api_burst=1000)
    made = connect(Path(server.facts["kubeconfig"]), config, SystemClock())
    yield made
    await made.close()
