"""Tests for the command line of simulations: exit codes, saved histories, minimal histories, random hashes."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from nodeagent.base.simulation.command import Simulation, add_arguments, prepare_process
from nodeagent.base.simulation.steps import Outcome, Step


def outcome_of(steps: Sequence[Step]) -> Outcome:
    """Return the outcome of *steps*: a violation if one of them has the kind ``crash``."""
    kinds = [step.kind for step in steps]
    return Outcome(
        violation="pod-1 is lost" if "crash" in kinds else "",
        at=1800.0,
        digest="d",
        trace=[f"event-{number}" for number in range(50)],
        steps={kind: kinds.count(kind) for kind in kinds},
        events={"started": 3},
        checked=4,
        callbacks=5,
        seconds=0.5,
    )


class Harness:
    """A simulation whose steps contain the kind ``crash`` in runs with the seed *crashing*."""

    def __init__(self, crashing: int = -1) -> None:
        self.crashing = crashing
        self.runs: list[tuple[int, int, int]] = []

    def make_steps(self, seed: int, hours: int) -> list[Step]:
        kinds = ("add", "crash", "add") if seed == self.crashing else ("add", "delay")
        return [Step(float(index), kind, {}) for index, kind in enumerate(kinds)]

    def simulate(self, seed: int, steps: Sequence[Step], hours: int) -> Outcome:
        self.runs.append((seed, len(steps), hours))
        return outcome_of(steps)

    def run(self, *arguments: str) -> int:
        parser = argparse.ArgumentParser()
        add_arguments(parser, "the subject")
        simulation = Simulation("simulate", " --plugin p", self.make_steps, self.simulate, {"crash", "delay"})
        return simulation.run(parser.parse_args(arguments))


def test_runs_have_consecutive_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    harness = Harness()

    assert harness.run("--seed", "0", "--runs", "2", "--hours", "3", "--statistics") == 0

    assert harness.runs == [(0, 2, 3), (1, 2, 3)]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "seed 0: 0.5 h in 0.5 s, 2 steps, 1 of them faults, 4 conditions verified, trace d"
    assert lines[1] == "  add 1, delay 1, event started 3"


def test_run_without_a_seed_has_a_random_one() -> None:
    first, second = Harness(), Harness()

    assert (first.run(), second.run()) == (0, 0)
    assert first.runs[0][0] != second.runs[0][0]


def test_violation_ends_the_runs_with_a_minimal_history(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    harness, file = Harness(crashing=7), tmp_path / "history.json"

    assert harness.run("--seed", "6", "--runs", "5", "--save", str(file)) == 1

    output = capsys.readouterr().out
    assert max(seed for seed, _, _ in harness.runs) == 7
    assert f"minimal history: 1 of 3 steps\n  {1.0:12.3f}  crash\nlast events:\n  event-10\n" in output
    assert output.endswith("repeat with: simulate --seed 7 --hours 1 --plugin p\n")

    repeated = Harness()
    assert repeated.run("--history", str(file)) == 1
    assert repeated.runs[0] == (7, 1, 1)


def test_history_that_no_longer_fails_exits_with_0(tmp_path: Path) -> None:
    file = tmp_path / "history.json"
    file.write_text('{"seed": 3, "hours": 2, "steps": []}')

    harness = Harness()
    assert harness.run("--history", str(file)) == 0
    assert harness.runs == [(3, 0, 2)]


@pytest.mark.parametrize("text", [None, "{", "{}"])
def test_unreadable_history_exits_with_2(text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "history.json"
    if text is not None:
        file.write_text(text)

    assert Harness().run("--history", str(file)) == 2
    assert f"simulate: --history {file}: " in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--hours", "--runs"])
def test_hours_and_runs_are_positive(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert Harness().run(option, "1") == 0
    with pytest.raises(SystemExit):
        Harness().run(option, "0")
    assert "must be at least 1" in capsys.readouterr().err


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[list[str], str]]]:
    """Command lines of the started processes, each with its seed of hashes."""
    found: list[tuple[list[str], str]] = []
    monkeypatch.setattr(
        os, "execve", lambda path, arguments, environment: found.append((arguments, environment["PYTHONHASHSEED"]))
    )
    yield found
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    ("randomized", "seed", "restarts"),
    [(1, None, True), (1, "random", True), (1, "0", False), (0, None, False)],
)
def test_process_with_random_hashes_is_started_again(
    processes: list[tuple[list[str], str]],
    monkeypatch: pytest.MonkeyPatch,
    randomized: int,
    seed: str | None,
    restarts: bool,
) -> None:
    monkeypatch.setattr(sys, "flags", SimpleNamespace(hash_randomization=randomized))
    if seed is None:
        monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    else:
        monkeypatch.setenv("PYTHONHASHSEED", seed)

    prepare_process("nodeagent", ["simulate"], log=False)

    assert processes == ([([sys.executable, "-m", "nodeagent", "simulate"], "0")] if restarts else [])
    assert not logging.getLogger("nodeagent").isEnabledFor(logging.CRITICAL)
