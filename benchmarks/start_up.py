"""From the start of a process until it serves, and what of it is importing."""

from __future__ import annotations

import contextlib
import http.client
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import entry_points
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.node import quick_directory, started_runtime, stop
from tests.integration.programs import ApiServer, NodeAgent, Program

ROUNDS = 5
LIMIT_SECONDS = 30.0
LOOK_SECONDS = 0.005

FIGURES = (
    Figure("agent_healthy", "agent: start to a healthy /healthz, median of 5", "s", at_most=1.0),
    Figure("agent_import", "agent and its plugins: importing", "s"),
    Figure("agent_import_rss", "agent and its plugins: memory (RSS) after importing", "MiB"),
    Figure("server_ready", "API server: start to a ready /readyz, median of 5", "s", at_most=1.0),
    Figure("server_import", "API server: importing", "s"),
)

RSS_OF_IMPORTS = """
import sys
for module in sys.argv[1:]:
    __import__(module)
status = open("/proc/self/status").read().splitlines()
print(next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024)
"""


def run() -> dict[str, float]:
    agent = ["nodeagent.cli.run", "nodeagent.agent", *(e.module for e in entry_points(group="nodeagent"))]
    server = ["apiserver_stub.__main__", "apiserver_stub.server.startup"]
    nothing = _import_seconds([])
    return {
        "agent_import": _import_seconds(agent) - nothing,
        "agent_import_rss": float(_output(["-c", RSS_OF_IMPORTS, *agent])),
        "server_import": _import_seconds(server) - nothing,
        "agent_healthy": _agent_healthy(),
        "server_ready": statistics.median(_server_ready() for _ in range(ROUNDS)),
    }


def _agent_healthy() -> float:
    found = []
    with quick_directory() as folder, started_runtime() as runtime:
        for _ in range(ROUNDS):
            agent = NodeAgent(folder, runtime.endpoint)
            try:
                begun = time.monotonic()
                agent.begin()
                found.append(
                    _until_well(agent, http.client.HTTPConnection("127.0.0.1", agent.health_port), "/healthz") - begun
                )
            finally:
                stop(agent)
    return statistics.median(found)


def _server_ready() -> float:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        server = ApiServer(Path(folder))
        try:
            begun = time.monotonic()
            server.start()
            port = int(server.facts["url"].rsplit(":", 1)[1])
            context = ssl.create_default_context(cafile=server.facts["caFile"])
            connection = http.client.HTTPSConnection("127.0.0.1", port, context=context)
            return _until_well(server, connection, "/readyz") - begun
        finally:
            stop(server)


def _until_well(program: Program, connection: http.client.HTTPConnection, path: str) -> float:
    """Return the moment of the first answer 200."""
    connection.timeout = LIMIT_SECONDS
    limit = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < limit:
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return time.monotonic()
        if not program.alive():
            raise RuntimeError(f"{program.name} ended:\n{program.tail()}")
        time.sleep(LOOK_SECONDS)
    raise RuntimeError(f"{program.name} is not well after {LIMIT_SECONDS:g} s:\n{program.tail()}")


def _import_seconds(modules: list[str]) -> float:
    found = []
    for _ in range(ROUNDS):
        begun = time.monotonic()
        _output(["-c", "".join(f"import {module}\n" for module in modules)])
        found.append(time.monotonic() - begun)
    return statistics.median(found)


def _output(arguments: list[str]) -> str:
    return subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True).stdout
