"""Tests for kernel settings of the agent and of pods on a real runtime."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.containerd import Containerd
from tests.integration.programs import NodeAgent, simple_pod, wait_until


@pytest.fixture
def agent(containerd: Containerd, tmp_path: Path) -> Iterator[NodeAgent]:
    """Agent without an API server."""
    made = NodeAgent(tmp_path, containerd.endpoint, node=f"prepared-{os.getpid()}")
    yield made
    made.kill()
    containerd.remove_pods()


@pytest.mark.row("config.oomScoreAdj", "config.maxOpenFiles")
def test_agent_has_oom_score_and_open_files_limit(agent: NodeAgent) -> None:
    agent.start(oomScoreAdj=777, maxOpenFiles=4321)

    process = Path(f"/proc/{agent.pid}")
    wait_until(lambda: (process / "oom_score_adj").read_text() == "777\n", "the agent has its OOM score")
    limits = (process / "limits").read_text()
    assert re.search(r"^Max open files +4321 +4321 ", limits, re.MULTILINE)


@pytest.mark.row("config.allowedUnsafeSysctls")
def test_pod_can_set_only_allowed_sysctls(agent: NodeAgent) -> None:
    agent.write_pod(_pod("allowed", {"name": "net.core.somaxconn", "value": "555"}))
    agent.write_pod(_pod("refused", {"name": "kernel.msgmax", "value": "555"}))

    agent.start(allowedUnsafeSysctls=["net.core.*"])

    wait_until(lambda: _log(agent, "allowed") == "555", "the pod tells its parameter")
    wait_until(lambda: "SysctlForbidden" in agent.log.read_text(), "the other pod is refused")
    assert not list(agent.logs.glob(f"pods/default_refused-{agent.node}_*"))


def _pod(name: str, sysctl: dict[str, str]) -> dict[str, object]:
    command = "cat /proc/sys/net/core/somaxconn; exec sleep 1000000"
    return simple_pod(name, command, securityContext={"sysctls": [sysctl]})


def _log(agent: NodeAgent, pod: str) -> str:
    """Return the output of the latest pod of that name."""
    files = sorted(
        agent.logs.glob(f"pods/default_{pod}-{agent.node}_*/main/0.log"), key=lambda file: file.stat().st_mtime
    )
    lines = files[-1].read_text().splitlines() if files else []
    return "\n".join(line.split(" ", 3)[3] for line in lines)
