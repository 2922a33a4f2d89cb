"""Tests for ``nodeagent demo``: options, the prompt about the pod, and exit codes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest

from nodeagent.cli import demo
from nodeagent.cli.main import main
from nodeagent.demo.processes import DemoError


class FakeDemo:
    """Demo that stops immediately; records its arguments and whether it deleted the pod."""

    created: list[FakeDemo]
    error = ""

    def __init__(
        self,
        directory: Path,
        endpoint: str,
        image: str,
        show: Callable[[str], None],
        stop_pods: Callable[[], Awaitable[bool]],
        plugin_config: Path | None,
    ) -> None:
        self.directory, self.endpoint, self.image, self.plugin_config = directory, endpoint, image, plugin_config
        self._stop_pods = stop_pods
        self.once = self.deleted = False
        self.created.append(self)

    async def run(self, *, once: bool, stop: asyncio.Event) -> None:
        self.once = once
        if self.error:
            raise DemoError(self.error)
        stop.set()  # As Ctrl-C does.
        self.deleted = await self._stop_pods()


@pytest.fixture
def demos(monkeypatch: pytest.MonkeyPatch) -> list[FakeDemo]:
    FakeDemo.created = []
    monkeypatch.setattr("nodeagent.demo.show.Demo", FakeDemo)
    monkeypatch.setattr("nodeagent.demo.show.default_directory", lambda: Path("/default"))
    monkeypatch.setattr(demo, "PROMPT_SECONDS", 0.05)
    return FakeDemo.created


class Terminal:
    """Standard input that is a terminal, or not."""

    def __init__(self, file: TextIO, *, terminal: bool = True) -> None:
        self._file, self._terminal = file, terminal

    def isatty(self) -> bool:
        return self._terminal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Return a function that types a text at the terminal."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as file, os.fdopen(writing, "w", buffering=1) as keyboard:

        def type_text(text: str, *, terminal: bool = True) -> None:
            monkeypatch.setattr("sys.stdin", Terminal(file, terminal=terminal))
            keyboard.write(text)

        yield type_text


@pytest.mark.parametrize(
    ("reply", "deleted"), [("y\n", True), (" YES \n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_pod_is_deleted_if_the_user_confirms_it(
    demos: list[FakeDemo], type_in: Callable[..., None], capsys: pytest.CaptureFixture[str], reply: str, deleted: bool
) -> None:
    type_in(reply)

    assert main(["demo"]) == 0

    assert demos[0].deleted == deleted
    assert "Delete the pod, too? [y/N]" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "deleted"), [([], False), (["--stop-pods"], True)])
def test_user_without_a_terminal_is_not_prompted(
    demos: list[FakeDemo],
    type_in: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    deleted: bool,
) -> None:
    type_in("y\n", terminal=False)

    assert main(["demo", *arguments]) == 0

    assert demos[0].deleted == deleted
    assert "Delete the pod" not in capsys.readouterr().out


def test_option_to_delete_the_pod_needs_no_confirmation(demos: list[FakeDemo], type_in: Callable[..., None]) -> None:
    type_in("n\n")

    assert main(["demo", "--stop-pods"]) == 0
    assert demos[0].deleted


def test_options_are_passed_with_absolute_paths(
    demos: list[FakeDemo], type_in: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    type_in("", terminal=False)

    assert main(["demo"]) == 0
    assert main(["demo", "--once", "--dir", "d", "--plugin-config", "p.yaml", "--endpoint", "embedded"]) == 0

    first, second = demos
    assert (first.directory, first.plugin_config, first.once) == (Path("/default"), None, False)
    assert (second.directory, second.plugin_config) == (tmp_path / "d", tmp_path / "p.yaml")
    assert (second.once, second.endpoint) == (True, "embedded")


def test_failed_demo_exits_with_3(
    demos: list[FakeDemo], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(FakeDemo, "error", "the port is in use")

    assert main(["demo"]) == 3
    assert capsys.readouterr().err == "nodeagent demo: the port is in use\n"


def test_demo_without_its_packages_exits_with_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "missing_extra", lambda command, extra: f"{command} requires {extra}")

    assert main(["demo"]) == 2
    assert capsys.readouterr().err == "nodeagent demo requires apiserver\n"
