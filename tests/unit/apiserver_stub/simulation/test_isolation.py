"""Tests for the isolation of the simulated server from the time of day."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from apiserver_stub.simulation.isolation import simulated_time_of_day

START = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
REAL = datetime.datetime


def wall() -> datetime.datetime:
    return START


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """Modules of this project and of another, which have imported the class or have none."""
    found = {}
    for name in ("apiserver_stub.x", "nodeagent.x", "other.x", "apiserver_stub.without"):
        found[name] = ModuleType(name)
        if name != "apiserver_stub.without":
            found[name].datetime = REAL  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, found[name])
    yield found


def test_modules_of_the_project_have_the_simulated_time(modules: dict[str, ModuleType]) -> None:
    with simulated_time_of_day(wall):
        for name in ("apiserver_stub.x", "nodeagent.x"):
            simulated = modules[name].datetime
            assert simulated.now(datetime.UTC) == START
            assert isinstance(START, simulated) and issubclass(REAL, simulated)
            assert not isinstance("text", simulated) and not issubclass(str, simulated)
            assert simulated(2026, 1, 2).year == 2026
        assert modules["other.x"].datetime is REAL
        assert not hasattr(modules["apiserver_stub.without"], "datetime")

    assert {each.datetime for each in modules.values() if hasattr(each, "datetime")} == {REAL}


def test_time_of_day_is_real_again_after_an_error(modules: dict[str, ModuleType]) -> None:
    with pytest.raises(KeyError), simulated_time_of_day(wall):
        raise KeyError("x")

    assert modules["apiserver_stub.x"].datetime is REAL


def test_programs_are_not_imported() -> None:
    sys.modules.pop("apiserver_stub.__main__", None)
    with simulated_time_of_day(wall):
        pass

    assert "apiserver_stub.__main__" not in sys.modules
    assert "apiserver_stub.server.startup" in sys.modules
