"""Tests for the start of the embedded runtime: pod network, exclusive directory and released mounts."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from nodeagent_plugins.embedded_runtime import daemon
from nodeagent_plugins.embedded_runtime.daemon import Daemon, InUseError, Options, choose_network
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


def options(network: str, root: Path = Path("/r"), runner: str = "") -> Options:
    return Options(root, root / "socket", network=network, runner=runner)


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


@pytest.mark.parametrize("pods", [True, False])
def test_mount_is_released_if_the_runtime_cannot_start_without_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pods: bool
) -> None:
    released: list[Path] = []
    monkeypatch.setattr(daemon.passable_root, "make_passable", lambda root, host: root)
    monkeypatch.setattr(daemon.passable_root, "release", released.append)
    if pods:
        (tmp_path / "sandboxes" / "s").mkdir(parents=True)

    with pytest.raises(ValueError, match='unknown runner "other"'):
        Daemon(options("host", tmp_path, "other"))

    assert released == ([] if pods else [tmp_path])


@pytest.mark.parametrize("version", [0, 2])
def test_missing_permission_to_create_cgroups_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, version: int
) -> None:
    monkeypatch.setattr(daemon.Host, "detect", lambda: msgspec.structs.replace(UNPRIVILEGED, cgroup_version=version))
    monkeypatch.setattr(daemon.passable_root, "make_passable", lambda root, host: root)
    monkeypatch.setattr(daemon, "RootFileSystems", lambda root, *, user_attributes: object())

    runtime = Daemon(options("host", tmp_path, "own"))

    assert ("Ignoring limits of containers" in caplog.text) == (version == 0)
    assert runtime.empty and runtime.describe() == "0 sandboxes, 0 containers"
    with pytest.raises(InUseError, match="is in use by another runtime"):
        Daemon(options("host", tmp_path, "own"))
    runtime._lock.close()
