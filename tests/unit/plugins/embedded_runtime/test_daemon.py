"""Tests for the choice of the pod network by the embedded runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent_plugins.embedded_runtime import daemon
from nodeagent_plugins.embedded_runtime.daemon import Options, choose_network
from nodeagent_plugins.embedded_runtime.host import Host
from nodeagent_plugins.embedded_runtime.network import BridgeNetwork, HostNetwork

ROOT = Host(frozenset({"NET_ADMIN"}), remapped=False, cgroup_version=2, oom_score_adj=0)
UNPRIVILEGED = Host(frozenset(), remapped=False, cgroup_version=0, oom_score_adj=0)
REMAPPED = Host(frozenset({"NET_ADMIN"}), remapped=True, cgroup_version=0, oom_score_adj=0)


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of the commands that the host has."""
    found = {"ip", "nsenter"}
    monkeypatch.setattr(daemon, "find_executable", lambda name: f"/sbin/{name}" if name in found else None)
    return found


def options(network: str) -> Options:
    return Options(Path("/r"), Path("/r/socket"), network=network)


@pytest.mark.parametrize(
    ("network", "host", "kind"),
    [
        ("", ROOT, BridgeNetwork),
        ("bridge", ROOT, BridgeNetwork),
        ("host", ROOT, HostNetwork),
        ("", UNPRIVILEGED, HostNetwork),
        ("", REMAPPED, HostNetwork),
    ],
)
def test_best_supported_network_is_used_unless_one_is_requested(network: str, host: Host, kind: type) -> None:
    assert type(choose_network(options(network), host)) is kind


@pytest.mark.parametrize("host", [UNPRIVILEGED, REMAPPED], ids=["unprivileged", "remapped"])
def test_bridge_that_is_not_supported_is_rejected(host: Host) -> None:
    with pytest.raises(ValueError, match="a bridge requires root"):
        choose_network(options("bridge"), host)


@pytest.mark.parametrize("missing", ["ip", "nsenter"])
def test_bridge_requires_both_commands(tools: set[str], missing: str) -> None:
    tools.remove(missing)

    assert type(choose_network(options(""), ROOT)) is HostNetwork
