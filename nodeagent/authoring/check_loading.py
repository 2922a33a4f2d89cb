"""Loads a plugin in processes of its own, to see whether the agent would take it and how long the import takes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nodeagent.authoring.findings import Finding, Rule

_RUNS = 3
_LIMIT_SECONDS = 30.0


def check_loading(
    entry: str, file: Path, paths: Sequence[Path], *, slow_seconds: float, found: Sequence[Finding] = ()
) -> Iterator[Finding]:
    """Yield what importing and registering brings up.

    :param entry: ``module`` or ``module:object``, as the entry point has it.
    :param file: the entry's own file, which findings without a better place name.
    :param paths: where its modules are found.
    :param slow_seconds: how long the import may take, the agent's own modules aside.
    :param found: what reading the source has brought up; a refusal of the agent that follows from it is left out.
    """
    answers = []
    for _ in range(_RUNS):
        answer = _load(entry, paths)
        answers.append(answer)
        # A fast run proves enough; a slow one may have had a busy machine, so the fastest counts.
        if answer.get("seconds", slow_seconds + 1) <= slow_seconds or "error" in answer:
            break
    answer = answers[-1]
    if "error" in answer:
        line = next(
            (line for name, line in reversed(answer.get("trace", ())) if Path(name).resolve() == file.resolve()), 1
        )
        yield Finding(file, line or 1, Rule.IMPORT_FAILS, f"cannot be imported here: {answer['error']}")
        return
    if "refused" in answer and not any(f.rule in (Rule.UNKNOWN_HOOK, Rule.ARGUMENT, Rule.ASYNC) for f in found):
        yield Finding(file, 1, Rule.REJECTED, f"the agent refuses it: {answer['refused']}")
    if "schema" in answer:
        yield Finding(file, 1, Rule.SETTINGS_SCHEMA, f"nodeagent_settings_schema is wrong: {answer['schema']}")
    fastest = min(one["seconds"] for one in answers if "seconds" in one)
    if fastest > slow_seconds:
        message = (
            f"importing takes {fastest:.2f} s, more than {slow_seconds:g} s; import what is heavy where it is used"
        )
        yield Finding(file, 1, Rule.SLOW_IMPORT, message)


def _load(entry: str, paths: Sequence[Path]) -> dict[str, Any]:
    command = [sys.executable, "-m", "nodeagent.authoring.child", entry, *(str(path.resolve()) for path in paths)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_LIMIT_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return {"error": f"it was not done after {_LIMIT_SECONDS:g} s"}
    try:
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        last = (done.stderr.strip().splitlines() or [f"the process ended with exit code {done.returncode}"])[-1]
        return {"error": last}
    return answer
