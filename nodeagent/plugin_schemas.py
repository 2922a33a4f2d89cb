"""Schema validation of plugin settings in a separate process: ``python -m nodeagent.plugin_schemas``.

The validation library needs 5 MiB of memory, which the agent would otherwise retain, and a fifth of a second. Settings
that are plainly valid do not need it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from nodeagent.base.plain_schemas import is_plainly_valid

LIMIT_SECONDS = 60.0


class Mismatch(NamedTuple):
    """A validation error in the settings of one plugin, with its path (``.rules[0].name``)."""

    plugin: str
    path: str
    message: str


def validate_in_subprocess(schemas: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Any]) -> list[Mismatch]:
    """Return the validation errors of *settings*, both by plugin name, using a child process. Blocking.

    :raises OSError: the child process failed.
    """
    unclear = {name: values for name, values in settings.items() if not is_plainly_valid(values, schemas[name])}
    if not unclear:
        return []
    request = json.dumps([{name: schemas[name] for name in unclear}, unclear], default=str)
    command = [sys.executable, "-m", "nodeagent.plugin_schemas"]
    try:
        done = subprocess.run(
            command, input=request, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"validation timed out after {LIMIT_SECONDS:g} s") from error
    if done.returncode:
        raise OSError("".join(done.stderr.strip().splitlines()[-1:]) or f"exit code {done.returncode}")
    return [Mismatch(*each) for each in json.loads(done.stdout)]


def validate(schemas: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Any]) -> list[Mismatch]:
    """Return the validation errors of *settings*; both arguments are by plugin name."""
    import jsonschema

    mismatches = []
    for name, values in settings.items():
        errors = jsonschema.Draft202012Validator(schemas[name]).iter_errors(values)
        for error in sorted(errors, key=lambda each: list(map(str, each.absolute_path))):
            path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
            mismatches.append(Mismatch(name, path, error.message + _suggestion(error)))
    return mismatches


def _suggestion(error: Any) -> str:
    """Return the properties that unexpected ones are similar to."""
    import difflib

    if error.validator != "additionalProperties":
        return ""
    known = error.schema.get("properties", {})
    unexpected = [each for each in error.instance if each not in known]
    near = [match for each in unexpected for match in difflib.get_close_matches(each, known, n=1)]
    return f"; did you mean {', '.join(near)}?" if near else ""


if __name__ == "__main__":
    print(json.dumps(validate(*json.load(sys.stdin))))
