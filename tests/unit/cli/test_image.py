"""Tests for ``nodeagent image``; ``pin`` and ``unpin`` need neither configuration nor runtime."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nodeagent import hookimpl
from nodeagent.base.quantity import size_text
from nodeagent.cli.main import main
from nodeagent.contracts.image_pins import read_pins, write_pins
from nodeagent.contracts.images import CollectableImage, ImageCollection
from nodeagent.contracts.runtime import Credentials, Image
from nodeagent.errors import PluginError, RuntimeFailure, RuntimeUnavailable
from nodeagent.pluginmanager import PluginManager
from nodeagent.testing import FakeImages


def test_image_is_pinned_and_unpinned(tmp_path, capsys):
    assert main(["image", "pin", "busybox", "--root-dir", str(tmp_path)]) == 0
    assert read_pins(tmp_path) == {"docker.io/library/busybox:latest"}

    assert main(["image", "unpin", "busybox", "--root-dir", str(tmp_path)]) == 0
    assert read_pins(tmp_path) == set()
    assert capsys.readouterr().out.splitlines() == [
        "pinned docker.io/library/busybox:latest",
        "unpinned docker.io/library/busybox:latest",
    ]


def test_unpinning_an_image_that_is_not_pinned_fails(tmp_path, capsys):
    assert main(["image", "unpin", "busybox", "--root-dir", str(tmp_path)]) == 1
    assert "is not pinned" in capsys.readouterr().err


def test_image_id_can_be_pinned(tmp_path):
    assert main(["image", "pin", f"sha256:{'a' * 64}", "--root-dir", str(tmp_path)]) == 0


@pytest.mark.parametrize("name", ["UP PER", "x/UPPER", ""])
def test_invalid_image_name_is_not_pinned(tmp_path, capsys, name):
    assert main(["image", "pin", name, "--root-dir", str(tmp_path)]) == 2
    assert repr(name) in capsys.readouterr().err
    assert not read_pins(tmp_path)


class Collector:
    """Image collector with a fixed result; records its arguments."""

    def __init__(self) -> None:
        self.result = ImageCollection([], capacity_bytes=100, available_bytes=40)
        self.arguments: list[tuple[bool, bool]] = []

    async def collect(self, *, everything: bool, dry_run: bool) -> ImageCollection:
        self.arguments.append((everything, dry_run))
        return self.result


class Provider:
    """Credential provider that returns fixed credentials, or fails."""

    def __init__(self, *credentials: Credentials, error: str = "") -> None:
        self._credentials, self._error = credentials, error

    async def credentials(self, image: str, pod: object = None) -> tuple[Credentials, ...]:
        if self._error:
            raise PluginError("vault", self._error)
        return self._credentials


class Harness:
    """Plugin with fake images, collector and credential providers."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.images, self.collector = FakeImages(open_registry=False), Collector()
        self.providers: list[Provider] = []

    @hookimpl
    def nodeagent_provide_runtime(self) -> object:
        return object()

    @hookimpl
    def nodeagent_provide_image_service(self) -> FakeImages:
        return self.images

    @hookimpl
    def nodeagent_provide_image_collector(self) -> Collector:
        return self.collector

    @hookimpl
    def nodeagent_provide_credential_providers(self) -> list[Provider]:
        return self.providers

    def run(self, *arguments: str) -> int:
        endpoint = "--container-runtime-endpoint=unix:///none.sock"
        return main(["image", *arguments, "--root-dir", str(self.root), endpoint])


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
    harness = Harness(tmp_path)
    monkeypatch.setattr(PluginManager, "load_entry_points", lambda self, disabled: self.register(harness, name="test"))
    return harness


def rows(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_images_are_listed_by_name_with_the_origin_of_a_pin(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("reg.io/c", "reg.io/b"):
        harness.images.add(name, size_bytes=2 << 20)
    harness.images.add("reg.io/a", pinned=True)
    write_pins(harness.root, frozenset({"reg.io/b:latest"}))

    assert harness.run("list") == 0

    heading, *lines = rows(capsys)
    assert heading == "IMAGE ID SIZE PINNED BY"
    assert [(line.split()[0], line.split()[-1]) for line in lines] == [
        ("reg.io/a:latest", "runtime"),
        ("reg.io/b:latest", "operator"),
        ("reg.io/c:latest", "-"),
    ]
    assert harness.run("list", "-o", "json") == 0
    assert [(each["name"], each["pinnedBy"]) for each in json.loads(capsys.readouterr().out)][1:] == [
        ("reg.io/b:latest", "operator"),
        ("reg.io/c:latest", ""),
    ]


def test_image_is_pulled_with_the_first_credentials_that_succeed(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    harness.images.serve("reg.io/app:latest", ("bob", "right"), size_bytes=3 << 20)
    wrong, right = Credentials("bob", "wrong"), Credentials("bob", "right")
    harness.providers = [Provider(error="is sealed"), Provider(wrong, wrong), Provider(right)]

    assert harness.run("pull", "reg.io/app") == 0

    captured = capsys.readouterr()
    assert captured.out.startswith("pulled reg.io/app:latest as sha256:")
    assert "is sealed" in captured.err
    assert [pull.credentials for pull in harness.images.pulls] == [wrong, right]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("output", ["json", "table"])
def test_pull_prints_size_and_id_if_the_runtime_reports_them(
    harness: Harness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, known: bool, output: str
) -> None:
    harness.images.serve("reg.io/app:1", size_bytes=5)
    if not known:
        monkeypatch.setattr(harness.images, "find", lambda image: None)

    assert harness.run("pull", "reg.io/app:1", "-o", output) == 0

    text = capsys.readouterr().out
    if output == "table":
        assert text.endswith(f", {size_text(5 if known else 0)}\n")
    else:
        report = json.loads(text)
        assert (report["image"], report["sizeBytes"]) == ("reg.io/app:1", 5 if known else 0)
        assert report["id"] == (report["ref"] if known else "")
    assert harness.images.pulls[0].credentials is None


@pytest.mark.parametrize(("error", "code"), [(RuntimeFailure("no space"), 1), (RuntimeUnavailable("no socket"), 3)])
def test_failed_pull_prints_the_error(
    harness: Harness, capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    harness.images.fail("pull_image", error)

    assert harness.run("pull", "reg.io/app") == code
    assert str(error) in capsys.readouterr().err


def test_invalid_name_is_not_pulled(harness: Harness, capsys: pytest.CaptureFixture[str]) -> None:
    assert harness.run("pull", "x/UPPER") == 2
    assert "'x/UPPER'" in capsys.readouterr().err


def collectable(name: str, **fields: Any) -> CollectableImage:
    image = Image(id=f"sha256:{name}", repo_tags=(name,), size_bytes=1)
    return CollectableImage(image, datetime(2024, 1, 1, tzinfo=UTC), **fields)


@pytest.mark.parametrize(
    ("arguments", "passed", "verb"), [((), (False, False), "removed"), (("--dry-run", "--all"), (True, True), "remove")]
)
def test_garbage_collection_prints_the_outcome_of_each_image(
    harness: Harness,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    passed: tuple[bool, bool],
    verb: str,
) -> None:
    images = [
        collectable("old", removal_reason="age", last_used=datetime(2024, 1, 2, tzinfo=UTC)),
        collectable("used", retained_reason="in use"),
        collectable("other"),
    ]
    harness.collector.result = ImageCollection(images, capacity_bytes=100, available_bytes=40)

    assert harness.run("gc", *arguments) == 0

    assert harness.collector.arguments == [passed]
    lines = rows(capsys)
    assert lines[0].startswith("Image filesystem: 60 % used")
    assert lines[1] == "IMAGE SIZE LAST USED OUTCOME REASON"
    assert [line.split()[0] for line in lines[2:]] == ["old", "used", "other"]
    assert lines[2].endswith(f"2024-01-02T00:00:00Z {verb} age")
    assert lines[3].endswith("never retained in use")
    assert lines[4].endswith("never retained no space needed")


@pytest.mark.parametrize("output", ["json", "table"])
@pytest.mark.parametrize("error", ["", "in use by a snapshot"])
def test_garbage_collection_exits_with_1_if_an_image_was_not_removed(
    harness: Harness, capsys: pytest.CaptureFixture[str], output: str, error: str
) -> None:
    images = [collectable("old", removal_reason="age", error=error), collectable("other")]
    harness.collector.result = ImageCollection(images, capacity_bytes=100, available_bytes=40)

    assert harness.run("gc", "-o", output) == (1 if error else 0)

    text = capsys.readouterr().out
    if output == "json":
        report = json.loads(text)
        assert (report["dryRun"], report["usedPercent"]) == (False, 60)
        assert [(each["name"], each["lastUsed"], each["error"]) for each in report["images"]] == [
            ("old", None, error),
            ("other", None, ""),
        ]
    else:
        assert ("failed" in text and "in use by a snapshot" in text) == bool(error)


@pytest.mark.parametrize("action", ["pin", "unpin"])
def test_pins_are_printed_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str], action: str) -> None:
    write_pins(tmp_path, frozenset({"docker.io/library/busybox:latest", "reg.io/b:1"}))

    assert main(["image", action, "busybox", "--root-dir", str(tmp_path), "-o", "json"]) == 0

    pins = ["reg.io/b:1"] if action == "unpin" else ["docker.io/library/busybox:latest", "reg.io/b:1"]
    assert json.loads(capsys.readouterr().out) == {"image": "docker.io/library/busybox:latest", "pins": pins}


def test_progress_is_displayed_on_a_terminal(
    harness: Harness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pull = harness.images.pull_image

    async def pull_later(*arguments: Any, **options: Any) -> str:
        for _ in range(3):
            await asyncio.sleep(0)
        return await pull(*arguments, **options)

    monkeypatch.setattr(harness.images, "pull_image", pull_later)
    monkeypatch.setattr(harness.images, "_open", True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    assert harness.run("pull", "reg.io/app:1") == 0

    error = capsys.readouterr().err
    assert "pulling reg.io/app:1: 0 s, this runtime does not report progress" in error
    assert error.endswith("\r\x1b[K")


def test_progress_is_not_displayed_in_a_file(harness: Harness, capsys: pytest.CaptureFixture[str]) -> None:
    harness.images.serve("reg.io/app:1")

    assert harness.run("pull", "reg.io/app:1") == 0
    assert capsys.readouterr().err == ""
