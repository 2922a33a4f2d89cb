"""What one run of the daemon leaves to the next when its configuration changes."""

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
def _hang_up() -> Iterator[None]:
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
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The environments of programs that were started anew."""
    found: list[dict[str, str]] = []
    monkeypatch.setattr(os, "execve", lambda _path, _words, environment: found.append(environment))
    return found


async def taken(arguments: list[str], file: Path, started: list[dict[str, str]], **fields: Any) -> Prepared:
    """Start with the file as it is, take it over with *fields* changed, and return what was in force before."""
    before = prepare(arguments)
    reload = Reload(arguments, {"NOTIFY_SOCKET": "/run/notify"})
    file.write_text(json.dumps(DOCUMENT | fields))
    assert await reload.take(before)
    reload.start_anew()
    return before


async def test_the_next_run_has_the_environment_of_the_first(arguments, file, started):
    environment = {"NOTIFY_SOCKET": "/run/notify", "HOME": "/root"}
    reload = Reload(arguments, environment)
    environment.pop("NOTIFY_SOCKET")  # as the service manager's part does

    assert await reload.take(prepare(arguments))
    reload.start_anew()

    assert started[0].items() >= {"NOTIFY_SOCKET": "/run/notify", "HOME": "/root"}.items()


async def test_the_next_run_uses_the_changed_files(arguments, file, started):
    await taken(arguments, file, started, maxPods=41)

    following = Reload(arguments, dict(started[0]))

    assert prepare(following.arguments).loaded.config.max_pods == 41
    assert not following.due


async def test_a_start_that_is_refused_falls_back_to_what_was_in_force(arguments, file, started):
    before = await taken(arguments, file, started, maxPods=41)
    refused = Reload(arguments, dict(started[0]))
    assert refused.fall_back()
    assert refused.due
    refused.start_anew()
    file.unlink()

    again = Reload(arguments, dict(started[1]))

    restored = prepare(again.arguments)
    assert restored.loaded.config == before.loaded.config
    assert restored.settings == before.settings
    assert not again.fall_back(), "there is nothing behind it"


async def test_nothing_falls_back_once_the_start_has_succeeded(arguments, file, started):
    await taken(arguments, file, started, maxPods=41)
    following = Reload(arguments, dict(started[0]))

    following.settle()

    assert not following.fall_back()
    assert not Reload(arguments, {}).fall_back(), "nor at a first start"


async def test_the_word_of_a_reload_is_for_the_daemon_alone(arguments, file, started):
    await taken(arguments, file, started, maxPods=41)
    environment = dict(started[0])

    Reload(arguments, environment)

    assert environment == {"NOTIFY_SOCKET": "/run/notify"}


async def test_what_is_kept_may_be_read_by_the_owner_alone(arguments, file, started, tmp_path):
    await taken(arguments, file, started, maxPods=41)

    kept = list((tmp_path / "root" / "configuration-before").iterdir())

    assert {path.name for path in kept} == {"config.yaml", "plugins.yaml"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}


async def test_a_reload_may_be_overtaken_by_the_end(arguments):
    reload = Reload(arguments, {})
    assert await reload.take(prepare(arguments))

    reload.cancel()

    assert not reload.due


async def test_each_problem_is_named(arguments, file, caplog):
    reload = Reload(arguments, {})
    before = prepare(arguments)
    file.write_text(json.dumps(DOCUMENT | {"maxPods": -1, "podsPerCore": -1}))

    with caplog.at_level(logging.ERROR):
        assert not await reload.take(before)

    told = [record.problem for record in caplog.records]  # type: ignore[attr-defined]
    assert len(told) == 2
    assert "maxPods" in told[0] + told[1]
    assert "podsPerCore" in told[0] + told[1]
    assert not reload.due


async def test_a_file_of_credential_providers_counts_as_well(arguments, file, tmp_path):
    providers = tmp_path / "providers.yaml"
    flags = [f"--image-credential-provider-config={providers}", f"--image-credential-provider-bin-dir={tmp_path}"]
    before = prepare([*arguments, *flags])
    providers.write_text("kind: Nonsense")

    assert not await Reload([*arguments, *flags], {}).take(before)


async def test_a_root_that_cannot_be_written_keeps_what_is_in_force(arguments, tmp_path, caplog):
    before = prepare(arguments)
    (tmp_path / "root").write_text("no directory")

    assert not await Reload(arguments, {}).take(before)
    assert "stays in force" in caplog.text


def test_a_signal_before_the_daemon_listens_does_not_end_it(arguments):
    Reload(arguments, {})

    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_the_program_is_started_as_it_was(arguments, monkeypatch):
    called: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda *given: called.append(given))

    Reload(arguments, {}).start_anew()

    assert called == [(sys.executable, sys.orig_argv, {})]


def test_problems_at_a_start_are_raised(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("maxPods: 1")

    with pytest.raises(ConfigError):
        prepare(["--config", str(file)])
