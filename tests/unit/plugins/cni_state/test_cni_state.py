"""Tests for the repair of the state of CNI."""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
from pathlib import Path

import pytest

from nodeagent.testing import FakeClock, load_plugin, make_context
from nodeagent_plugins import cni_state
from nodeagent_plugins.cni_state import torn_files
from nodeagent_plugins.cni_state.repair import CHECK_SECONDS, SETTLE_SECONDS, CniRepair
from nodeagent_plugins.cni_state.torn_files import TornFile, TornFiles, remove

RESULT = json.dumps({"kind": "cniCacheV1", "containerId": "5773"})
SANDBOX = "5773\neth0"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    (tmp_path / "results").mkdir()
    return tmp_path / "results"


@pytest.fixture
def network(tmp_path: Path) -> Path:
    (tmp_path / "networks/pods").mkdir(parents=True)
    return tmp_path / "networks/pods"


@pytest.fixture
def files(tmp_path: Path) -> TornFiles:
    return TornFiles(tmp_path, tmp_path / "networks")


@pytest.fixture
def repair(files: TornFiles, clock: FakeClock) -> CniRepair:
    return CniRepair(files, clock)


def names(found: object) -> list[str]:
    return [file.path.name for file in found]  # type: ignore[attr-defined]


@pytest.mark.parametrize("content", [b"", b"\0" * 300, RESULT.encode()[:-9], b"[" * 200_000, b"null", b"\xff{}"])
def test_result_without_its_content_is_torn(files: TornFiles, results: Path, content: bytes) -> None:
    (results / "pods-5773-eth0").write_bytes(content)
    (results / "pods-6884-eth0").write_text(RESULT)

    assert names(files.find()) == ["pods-5773-eth0"]


@pytest.mark.parametrize("name", ["10.88.0.5", "fd00::5"])
@pytest.mark.parametrize("content", [b"", b"\0" * 70])
def test_address_without_its_sandbox_is_torn(files: TornFiles, network: Path, name: str, content: bytes) -> None:
    (network / name).write_bytes(content)
    (network / "10.88.0.6").write_text(SANDBOX)
    (network / "lock").touch()
    (network / "last_reserved_ip.0").touch()

    assert names(files.find()) == [name]


def test_nothing_is_torn_without_the_directories(tmp_path: Path) -> None:
    (tmp_path / "results").touch()

    assert TornFiles(tmp_path, tmp_path / "networks").find() == []
    assert TornFiles(tmp_path / "missing", tmp_path / "missing").find() == []


def test_links_and_special_files_are_not_examined(
    files: TornFiles, results: Path, network: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/10.88.0.5").touch()
    (results / "pods-1-eth0").symlink_to(tmp_path / "elsewhere/10.88.0.5")
    os.mkfifo(results / "pods-2-eth0")
    (results / "pods-3-eth0").mkdir()
    network.rmdir()
    network.symlink_to(tmp_path / "elsewhere")

    assert files.find() == []


def test_directory_of_addresses_may_be_a_link(results: Path, network: Path, tmp_path: Path) -> None:
    (network / "10.88.0.5").touch()
    (tmp_path / "link").symlink_to(tmp_path / "networks")

    assert names(TornFiles(tmp_path, tmp_path / "link").find()) == ["10.88.0.5"]


def test_large_files_are_not_examined(files: TornFiles, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torn_files, "MAX_BYTES", 10)
    (results / "pods-1-eth0").write_text("x" * 10)
    (results / "pods-2-eth0").write_text("x" * 11)

    assert names(files.find()) == ["pods-1-eth0"]


def test_further_files_are_not_examined(files: TornFiles, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torn_files, "MAX_FILES", 3)
    for number in range(5):
        (results / f"pods-{number}-eth0").touch()

    assert len(files.find()) == 3


def test_valid_file_is_read_once_per_version(files: TornFiles, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    read = torn_files._read
    monkeypatch.setattr(torn_files, "_read", lambda path: reads.append(path.name) or read(path))
    file = results / "pods-1-eth0"
    file.write_text(RESULT)
    files.find()
    files.find()
    assert reads == ["pods-1-eth0"]

    file.write_text(RESULT + "\n")
    files.find()
    assert reads == ["pods-1-eth0"] * 2

    file.write_text("")
    assert names(files.find()) == ["pods-1-eth0"]


def test_written_file_is_not_removed(files: TornFiles, results: Path) -> None:
    file = results / "pods-1-eth0"
    file.touch()
    [torn] = files.find()
    file.write_text(RESULT)

    assert not remove(torn)
    assert file.exists()


def test_removed_file_is_not_removed_again(files: TornFiles, results: Path) -> None:
    (results / "pods-1-eth0").touch()
    [torn] = files.find()

    assert remove(torn)
    assert not remove(torn)


def test_address_is_not_removed_while_its_network_changes(files: TornFiles, network: Path) -> None:
    (network / "10.88.0.5").touch()
    [torn] = files.find()
    with (network / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not remove(torn)
    assert remove(torn)


async def test_torn_files_are_removed_at_start(
    repair: CniRepair, results: Path, network: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    (results / "pods-5773-eth0").touch()
    (results / "pods-6884-eth0").write_text(RESULT)
    (network / "10.88.0.5").touch()
    (network / "10.88.0.6").write_text(SANDBOX)
    loop = asyncio.create_task(repair.run())
    await clock.advance(SETTLE_SECONDS)
    await asyncio.sleep(0.01)

    assert os.listdir(results) == ["pods-6884-eth0"]
    assert os.listdir(network) == ["10.88.0.6"]
    removed = {record.path for record in caplog.records if record.message == "Removed torn CNI file"}
    assert removed == {str(results / "pods-5773-eth0"), str(network / "10.88.0.5")}
    loop.cancel()


async def test_files_that_are_torn_later_are_removed(repair: CniRepair, results: Path, clock: FakeClock) -> None:
    loop = asyncio.create_task(repair.run())
    await clock.advance(0)
    (results / "pods-5773-eth0").touch()

    await clock.advance(CHECK_SECONDS)
    await clock.advance(SETTLE_SECONDS)

    assert not os.listdir(results)
    loop.cancel()


async def test_file_that_is_being_written_is_retained(repair: CniRepair, results: Path, clock: FakeClock) -> None:
    file = results / "pods-5773-eth0"
    file.touch()
    repairing = asyncio.create_task(repair.repair())
    await clock.advance(SETTLE_SECONDS / 2)
    file.write_text("{")  # The second half follows.
    await clock.advance(SETTLE_SECONDS / 2)
    await repairing

    assert file.exists()


async def test_file_that_cannot_be_removed_does_not_retain_others(
    repair: CniRepair, results: Path, network: Path, clock: FakeClock
) -> None:
    (results / "lock").symlink_to(results)  # Removals in this directory fail.
    (results / "pods-5773-eth0").touch()
    (network / "10.88.0.5").touch()
    repairing = asyncio.create_task(repair.repair())
    await clock.advance(SETTLE_SECONDS)

    with pytest.raises(OSError, match="lock"):
        await repairing
    assert not os.listdir(network)
    assert (results / "pods-5773-eth0").exists()


async def test_failure_is_logged_once(
    repair: CniRepair,
    files: TornFiles,
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> list[TornFile]:
        raise PermissionError(13, "Permission denied", "/var/lib/cni/results")

    monkeypatch.setattr(files, "find", fail)
    loop = asyncio.create_task(repair.run())
    for _ in range(3):
        await clock.advance(CHECK_SECONDS)

    assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == [
        "Failed to repair CNI state"
    ]
    assert caplog.records[-1].err == "[Errno 13] Permission denied: '/var/lib/cni/results'"
    loop.cancel()


async def test_doctor_reports_torn_files(results: Path, network: Path, tmp_path: Path, clock: FakeClock) -> None:
    (results / "pods-5773-eth0").touch()
    (network / "10.88.0.5").touch()
    settings = {"cni_state": {"cache_dir": str(tmp_path), "address_dir": str(tmp_path / "networks")}}
    context = make_context(tmp_path, clock=clock, plugin_settings=settings)
    [provided] = load_plugin(cni_state).provide_all("nodeagent_provide_node_checks", context=context)
    [check] = provided.value
    checking = asyncio.create_task(check.run())
    await clock.advance(SETTLE_SECONDS)

    stem = "has no valid content"
    assert [finding.text for finding in await checking] == [
        f"CNI file {results}/pods-5773-eth0 {stem}: its sandbox cannot be stopped by containerd before 2.0",
        f"CNI file {network}/10.88.0.5 {stem}: the address is not assigned to pods anymore",
    ]
    assert os.listdir(results), "doctor changes nothing"


@pytest.mark.parametrize("enabled", [True, False])
def test_disabled_plugin_has_no_loop(tmp_path: Path, enabled: bool) -> None:
    context = make_context(tmp_path, plugin_settings={"cni_state": {"enabled": enabled}})
    manager = load_plugin(cni_state)
    [provided] = manager.provide_all("nodeagent_provide_background_loops", context=context, plugins=manager)
    assert len(provided.value) == enabled
