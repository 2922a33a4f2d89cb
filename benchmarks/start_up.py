"""Start-up time of the processes, and the import time in it."""

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
POLL_SECONDS = 0.005

FIGURES = (
    Figure("agent_healthy", "agent: start until /healthz returns 200, median of 5", "s", at_most=0.45),
    Figure("agent_import", "agent and plugins: import", "s"),
    Figure("agent_import_rss", "agent and plugins: memory (RSS) after the import", "MiB"),
    Figure("server_ready", "API server: start until /readyz returns 200, median of 5", "s", at_most=0.5),
    Figure("server_import", "API server: import", "s"),
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
    baseline = _import_seconds([])
    return {
        "agent_import": _import_seconds(agent) - baseline,
        "agent_import_rss": float(_output(["-c", RSS_OF_IMPORTS, *agent])),
        "server_import": _import_seconds(server) - baseline,
        "agent_healthy": _agent_healthy(),
        "server_ready": statistics.median(_server_ready() for _ in range(ROUNDS)),
    }


def _agent_healthy() -> float:
    results = []
    with quick_directory() as directory, started_runtime() as runtime:
        for _ in range(ROUNDS):
            agent = NodeAgent(directory, runtime.endpoint)
            try:
                started = time.monotonic()
                agent.begin()
                results.append(
                    _wait_until_healthy(agent, http.client.HTTPConnection("127.0.0.1", agent.health_port), "/healthz")
                    - started
                )
            finally:
                stop(agent)
    return statistics.median(results)


def _server_ready() -> float:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        server = ApiServer(Path(directory))
        try:
            started = time.monotonic()
            server.start()
            port = int(server.facts["url"].rsplit(":", 1)[1])
            context = ssl.create_default_context(cafile=server.facts["caFile"])
            connection = http.client.HTTPSConnection("127.0.0.1", port, context=context)
            return _wait_until_healthy(server, connection, "/readyz") - started
        finally:
            stop(server)


def _wait_until_healthy(command: Program, connection: http.client.HTTPConnection, path: str) -> float:
    """Return the time (monotonic) of the first response with status 200."""
    connection.timeout = LIMIT_SECONDS
    limit = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < limit:
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return time.monotonic()
        if not command.alive():
            raise RuntimeError(f"{command.name} exited:\n{command.tail()}")
        time.sleep(POLL_SECONDS)
    raise RuntimeError(f"{command.name} is not healthy after {LIMIT_SECONDS:g} s:\n{command.tail()}")


def _import_seconds(modules: list[str]) -> float:
    results = []
    for _ in range(ROUNDS):
        started = time.monotonic()
        _output(["-c", "".join(f"import {module}\n" for module in modules)])
        results.append(time.monotonic() - started)
    return statistics.median(results)


def _output(arguments: list[str]) -> str:
    return subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True).stdout
