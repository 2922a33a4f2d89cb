"""Which runtime the demo takes, and what it says of its choice."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.demo.programs import DemoError
from nodeagent.demo.runtimes import Choice, choose_runtime

FIRST, SECOND = Path("/run/first.sock"), Path("/run/second.sock")
KNOWN = (("first", FIRST), ("second", SECOND))
NO_PODS = Path("/nowhere/pods")


def serving(*paths: Path):
    return lambda path: "" if path in paths else f"no socket {path}"


def test_takes_the_first_runtime_that_serves() -> None:
    assert choose_runtime("", KNOWN, NO_PODS, serving(SECOND)) == Choice(f"unix://{SECOND}", "second serves here")


def test_takes_the_embedded_one_when_none_serves_and_says_why() -> None:
    choice = choose_runtime("", KNOWN, NO_PODS, serving())

    assert not choice.endpoint
    assert f"first: no socket {FIRST}; second: no socket {SECOND}" in choice.why


def test_leaves_the_runtime_of_another_agent_alone(tmp_path: Path) -> None:
    (tmp_path / "uid").mkdir()

    assert choose_runtime("", KNOWN, tmp_path, serving(FIRST)).endpoint == ""
    with pytest.raises(DemoError, match="another node agent keeps pods"):
        choose_runtime(f"unix://{FIRST}", KNOWN, tmp_path, serving(FIRST))
    assert choose_runtime("unix:///own.sock", KNOWN, tmp_path, serving(Path("/own.sock"))).endpoint


def test_takes_what_is_asked_for() -> None:
    assert choose_runtime("embedded", KNOWN, NO_PODS, serving(FIRST)) == Choice("", "as asked")
    assert choose_runtime(f"unix://{SECOND}", KNOWN, NO_PODS, serving(FIRST, SECOND)).endpoint == f"unix://{SECOND}"


def test_says_what_to_do_when_what_is_asked_for_does_not_serve() -> None:
    with pytest.raises(DemoError, match=r"no socket /run/first.sock; install and start one"):
        choose_runtime(f"unix://{FIRST}", KNOWN, NO_PODS, serving())
