"""API server in the test process, for tests that access its internals."""

from __future__ import annotations

from pathlib import Path

from apiserver_stub.options import parse
from apiserver_stub.server import startup
from apiserver_stub.server.running_server import RunningServer
from nodeagent.testing.apiserver import usual_options


async def start(data: Path, *options: str) -> RunningServer:
    """Start a server with its files in *data*, on a free loopback port unless *options* set another one."""
    return await startup.start(parse(usual_options(data, *options)))
