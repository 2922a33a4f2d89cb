"""Scenarios about the status of Jobs at release 1.36: transitions that a controller makes, and others. No I/O."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.differential.edits import Json
from tests.differential.scenarios import Scenario
from tests.differential.sequences.script import Kind, Script

_SEED = 1
_COUNT, _STEPS = 24, 16
_START, _LATER, _END = (f"2024-01-02T03:0{minute}:05Z" for minute in (4, 5, 9))
_TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
_SPECS: tuple[dict[str, Any], ...] = (
    {},
    {"suspend": True},
    {"suspend": True, "completions": 0},
    {"completions": 5, "completionMode": "Indexed"},
    {"completions": 5, "parallelism": 5, "completionMode": "Indexed", "backoffLimitPerIndex": 1},
    {"completions": 5, "completionMode": "Indexed", "successPolicy": {"rules": [{"succeededCount": 1}]}},
)
_CONDITIONS = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet", "Suspended")
_INDEXES = ("", "0", "0,2", "0-2", "1-3,4", "3,1", "5", "2-2", "0-1-2", "a", "1,,2", "+1", "-1", "9" * 20, None)
_FIELDS: dict[str, tuple[Json, ...]] = {
    "active": (0, 1, 2, None),
    "ready": (0, 1, 2, None),
    "terminating": (0, 1, None),
    "succeeded": (0, 1, 2, None),
    "failed": (0, 1, 2, None),
    "startTime": (_START, _LATER, None),
    "completionTime": (_START, _LATER, _END, None),
    "completedIndexes": _INDEXES,
    "failedIndexes": _INDEXES,
    "uncountedTerminatedPods": (
        {},
        {"succeeded": ["u"]},
        {"failed": ["u", "v"]},
        {"succeeded": ["u"], "failed": ["u"]},
    ),
}


def generate() -> Iterator[Scenario]:
    """Yield the scenarios."""
    for number in range(_COUNT):
        script, random_ = Script(), random.Random(f"jobs-{number}:{_SEED}")
        job = Kind("batch/v1", "Job", "jobs", {"spec": {"template": _TEMPLATE, **_SPECS[number % len(_SPECS)]}})
        script.post(job.path, job.object("a"))
        for _ in range(_STEPS):
            change = _change(random_)
            if random_.random() < 0.3:  # A state that is often valid, so that later steps start from it.
                change = random_.choice(_typical())
            script.patch(f"{job.item('a')}/status", {"status": change})
            if random_.random() < 0.1:
                script.patch(job.item("a"), {"spec": {"suspend": random_.random() < 0.5}})
        yield Scenario(f"job-status-{number}", script.steps)


def _change(random_: random.Random) -> dict[str, Any]:
    names = random_.sample(sorted(_FIELDS), random_.choice((1, 1, 2, 3)))
    found = {name: random_.choice(_FIELDS[name]) for name in names}
    if random_.random() < 0.6:
        kinds = random_.sample(_CONDITIONS, random_.choice((0, 1, 1, 2, 3)))
        found["conditions"] = [_condition(kind, random_.choice(("True", "True", "False"))) for kind in kinds]
    return found


def _typical() -> tuple[dict[str, Any], ...]:
    none: dict[str, Any] = {"active": 0, "ready": 0, "terminating": 0, "uncountedTerminatedPods": None}
    met, complete = _condition("SuccessCriteriaMet"), _condition("Complete")
    target, failed = _condition("FailureTarget"), _condition("Failed")
    return (
        {"startTime": _START, "active": 2, "ready": 1},
        {"startTime": _START, "conditions": [met]},
        {"startTime": _START, "conditions": [target]},
        {**none, "startTime": _START, "completionTime": _END, "conditions": [met, complete]},
        {**none, "startTime": _START, "conditions": [target, failed]},
        {"startTime": None, "conditions": [_condition("Suspended")]},
        {"startTime": _LATER, "conditions": [_condition("Suspended", "False")]},
    )


def _condition(kind: str, status: str = "True") -> dict[str, Any]:
    return {"type": kind, "status": status, "lastProbeTime": _START, "lastTransitionTime": _START}
