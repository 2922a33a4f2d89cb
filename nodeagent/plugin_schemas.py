"""Compares settings of plugins with their schemas, in a process of its own: ``python -m nodeagent.plugin_schemas``.

The library for it takes 5 MiB, which the agent would keep for as long as it runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

LIMIT_SECONDS = 60.0


class Mismatch(NamedTuple):
    """What is wrong with the settings of one plugin: where (``.rules[0].name``) and in words."""

    plugin: str
    path: str
    message: str


def check_apart(schemas: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Any]) -> list[Mismatch]:
    """Return what is wrong with *settings*, both by plugin name; the comparing is done by a child process. Blocks.

    :raises OSError: the child could not do it.
    """
    if not settings:
        return []
    asked = json.dumps([{name: schemas[name] for name in settings}, settings], default=str)
    command = [sys.executable, "-m", "nodeagent.plugin_schemas"]
    try:
        done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise OSError(f"not compared with the schemas within {LIMIT_SECONDS:g} s") from error
    if done.returncode:
        raise OSError("".join(done.stderr.strip().splitlines()[-1:]) or f"exit code {done.returncode}")
    return [Mismatch(*each) for each in json.loads(done.stdout)]


def compare(schemas: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Any]) -> list[Mismatch]:
    """Return what is wrong with *settings*, both by plugin name."""
    import jsonschema

    found = []
    for name, given in settings.items():
        errors = jsonschema.Draft202012Validator(schemas[name]).iter_errors(given)
        for error in sorted(errors, key=lambda each: list(map(str, each.absolute_path))):
            path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
            found.append(Mismatch(name, path, error.message))
    return found


if __name__ == "__main__":
    print(json.dumps(compare(*json.load(sys.stdin))))
