"""Tests for configuration reload: validation, re-execution and fallback to the previous configuration."""

from __future__ import annotations

import json
import logging
import os
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeagent.cli.reload import Prepared, Reload, prepare
from nodeagent.errors import ConfigError

DOCUMENT: dict[str, Any] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
    "staticPodPath": "manifests",
}


@pytest.fixture(autouse=True)
def _restore_sighup() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(DOCUMENT | {"maxPods": 40}))
    return path


@pytest.fixture
def arguments(file: Path, tmp_path: Path) -> list[str]:
    return ["--config", str(file), "--root-dir", str(tmp_path / "root"), "--v=3"]


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """Environments of the processes started by reloads."""
    environments: list[dict[str, str]] = []
    monkeypatch.setattr(os, "execve", lambda _path, _arguments, environment: environments.append(environment))
    return environments


async def reload_with(arguments: list[str], file: Path, **fields: Any) -> Prepared:
    """Reload the configuration with *fields* changed, and return the previous configuration."""
    previous = prepare(arguments)
    reload = Reload(arguments, {"NOTIFY_SOCKET": "/run/notify"})
    file.write_text(json.dumps(DOCUMENT | fields))
    assert await reload.prepare(previous)
    reload.reexec()
    return previous


async def test_next_process_has_the_environment_of_the_first(arguments, file, processes):
    environment = {"NOTIFY_SOCKET": "/run/notify", "HOME": "/root"}
    reload = Reload(arguments, environment)
    environment.pop("NOTIFY_SOCKET")  # As the client of the service manager does.

    assert await reload.prepare(prepare(arguments))
    reload.reexec()

    assert processes[0].items() >= {"NOTIFY_SOCKET": "/run/notify", "HOME": "/root"}.items()


async def test_next_process_uses_the_changed_files(arguments, file, processes):
    await reload_with(arguments, file, maxPods=41)

    following = Reload(arguments, dict(processes[0]))

    assert prepare(following.arguments).loaded.config.max_pods == 41
    assert not following.pending


async def test_failed_start_falls_back_to_the_previous_configuration(arguments, file, processes):
    previous = await reload_with(arguments, file, maxPods=41)
    failed = Reload(arguments, dict(processes[0]))
    assert failed.fall_back()
    assert failed.pending
    failed.reexec()
    file.unlink()

    fallback = Reload(arguments, dict(processes[1]))

    restored = prepare(fallback.arguments)
    assert restored.loaded.config == previous.loaded.config
    assert restored.plugin_config == previous.plugin_config
    assert not fallback.fall_back(), "there is only one previous configuration"


async def test_fallback_is_disabled_after_a_successful_start(arguments, file, processes):
    await reload_with(arguments, file, maxPods=41)
    following = Reload(arguments, dict(processes[0]))

    following.confirm()

    assert not following.fall_back()
    assert not Reload(arguments, {}).fall_back(), "the first start has no previous configuration"


async def test_reload_variables_are_removed_from_the_environment(arguments, file, processes):
    await reload_with(arguments, file, maxPods=41)
    environment = dict(processes[0])

    Reload(arguments, environment)

    assert environment == {"NOTIFY_SOCKET": "/run/notify"}


async def test_stored_configuration_is_readable_only_by_the_owner(arguments, file, processes, tmp_path):
    await reload_with(arguments, file, maxPods=41)

    stored = list((tmp_path / "root" / "configuration-before").iterdir())

    assert {path.name for path in stored} == {"config.yaml", "plugins.yaml"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in stored} == {0o600}


async def test_shutdown_cancels_a_pending_reload(arguments):
    reload = Reload(arguments, {})
    assert await reload.prepare(prepare(arguments))

    reload.cancel()

    assert not reload.pending


async def test_each_problem_is_logged(arguments, file, caplog):
    reload = Reload(arguments, {})
    active = prepare(arguments)
    file.write_text(json.dumps(DOCUMENT | {"maxPods": -1, "podsPerCore": -1}))

    with caplog.at_level(logging.ERROR):
        assert not await reload.prepare(active)

    logged = [record.problem for record in caplog.records]  # type: ignore[attr-defined]
    assert len(logged) == 2
    assert "maxPods" in logged[0] + logged[1]
    assert "podsPerCore" in logged[0] + logged[1]
    assert not reload.pending


async def test_invalid_credential_provider_file_is_rejected(arguments, file, tmp_path):
    providers = tmp_path / "providers.yaml"
    flags = [f"--image-credential-provider-config={providers}", f"--image-credential-provider-bin-dir={tmp_path}"]
    active = prepare([*arguments, *flags])
    providers.write_text("kind: Nonsense")

    assert not await Reload([*arguments, *flags], {}).prepare(active)


async def test_reload_is_skipped_if_the_root_directory_is_not_writable(arguments, tmp_path, caplog):
    active = prepare(arguments)
    (tmp_path / "root").write_text("not a directory")

    assert not await Reload(arguments, {}).prepare(active)
    assert "Failed to store the active configuration" in caplog.text


def test_sighup_during_startup_is_ignored(arguments):
    Reload(arguments, {})

    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_reexec_uses_the_original_command_line(arguments, monkeypatch):
    calls: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda *call: calls.append(call))

    Reload(arguments, {}).reexec()

    assert calls == [(sys.executable, sys.orig_argv, {})]


def test_invalid_configuration_raises_at_startup(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("maxPods: 1")

    with pytest.raises(ConfigError):
        prepare(["--config", str(file)])


@pytest.mark.parametrize(
    ("fields", "changed"),
    [({"maxPods": 40}, "no configuration field"), ({"maxPods": 41, "podsPerCore": 2}, "podsPerCore, maxPods")],
)
async def test_changed_fields_are_logged(arguments, file, processes, caplog, fields, changed):
    caplog.set_level(logging.INFO)

    await reload_with(arguments, file, **fields)

    (record,) = [record for record in caplog.records if record.message.startswith("Reloading configuration")]
    assert set(record.changed.split(", ")) == set(changed.split(", "))  # type: ignore[attr-defined]
