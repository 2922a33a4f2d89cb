"""Check that a plugin can be imported and registered, and of its import time, in separate processes."""

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
    name: str,
    entry: str,
    file: Path,
    paths: Sequence[Path],
    *,
    slow_seconds: float,
    source_findings: Sequence[Finding] = (),
) -> Iterator[Finding]:
    """Yield the problems of importing and registering the plugin.

    :param name: name of the plugin.
    :param entry: ``module`` or ``module:object``, as in the entry point.
    :param file: the file of the entry point; reported for findings without a more specific location.
    :param paths: directories for ``sys.path``.
    :param slow_seconds: maximum import time, without the agent's modules.
    :param source_findings: the findings in the source; a rejection by the agent that follows from them is not reported.
    """
    results = []
    for _ in range(_RUNS):
        result = _load(name, entry, paths)
        results.append(result)
        # One fast run is sufficient. A slow one may be due to load on the host, hence the minimum of several runs.
        if result.get("seconds", slow_seconds + 1) <= slow_seconds or "error" in result:
            break
    result = results[-1]
    if "error" in result:
        line = next(
            (line for name, line in reversed(result.get("trace", ())) if Path(name).resolve() == file.resolve()), 1
        )
        yield Finding(file, line or 1, Rule.IMPORT_FAILS, f"failed to import: {result['error']}")
        return
    explained = any(f.rule in (Rule.UNKNOWN_HOOK, Rule.ARGUMENT, Rule.ASYNC) for f in source_findings)
    if "rejected" in result and not explained:
        yield Finding(file, 1, Rule.REJECTED, f"the agent rejects the plugin: {result['rejected']}")
    if "schema" in result:
        yield Finding(file, 1, Rule.SETTINGS_SCHEMA, f"invalid nodeagent_settings_schema: {result['schema']}")
    for used, line, text in result.get("deprecated", ()):
        yield Finding(Path(used), line, Rule.DEPRECATED, text)
    fastest = min(each["seconds"] for each in results if "seconds" in each)
    if fastest > slow_seconds:
        message = f"import takes {fastest:.2f} s, more than {slow_seconds:g} s; defer imports of large modules"
        yield Finding(file, 1, Rule.SLOW_IMPORT, message)


def _load(name: str, entry: str, paths: Sequence[Path]) -> dict[str, Any]:
    directories = [str(path.resolve()) for path in paths]
    command = [sys.executable, "-m", "nodeagent.authoring.child", name, entry, *directories]
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, timeout=_LIMIT_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return {"error": f"timed out after {_LIMIT_SECONDS:g} s"}
    try:
        result: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        last = (process.stderr.strip().splitlines() or [f"the process exited with code {process.returncode}"])[-1]
        return {"error": last}
    return result
