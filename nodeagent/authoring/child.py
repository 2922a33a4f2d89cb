"""Imports a plugin in this process, which is there for that alone, and prints what came of it as JSON.

``python -m nodeagent.authoring.child MODULE[:OBJECT] PATH…``: the paths go in front of ``sys.path``.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import traceback
from typing import Any


def main(entry: str, paths: list[str]) -> dict[str, Any]:
    """Return ``seconds`` of the import, or ``error`` with ``trace``; then ``refused``, or ``schema``, if wrong."""
    sys.path[:0] = paths
    name, _, attribute = entry.partition(":")
    # What every agent holds already is not the plugin's doing.
    from nodeagent import contracts, hookspecs  # noqa: F401
    from nodeagent.errors import PluginError
    from nodeagent.pluginmanager import PluginManager

    started = time.perf_counter()
    try:
        plugin: Any = importlib.import_module(name)
        seconds = time.perf_counter() - started
        for part in filter(None, attribute.split(".")):
            plugin = getattr(plugin, part)
    except BaseException as error:  # whatever a foreign module raises is the answer
        trace = [[frame.filename, frame.lineno] for frame in traceback.extract_tb(error.__traceback__)]
        if isinstance(error, SyntaxError):
            trace.append([error.filename, error.lineno])
        return {"error": f"{type(error).__name__}: {error}", "trace": trace}
    manager = PluginManager()
    answer: dict[str, Any] = {"seconds": seconds}
    try:
        manager.register(plugin, name="plugin")
    except PluginError as error:
        return answer | {"refused": str(error)}
    return answer | _schema_problem(manager)


def _schema_problem(manager: Any) -> dict[str, Any]:
    import jsonschema

    from nodeagent.errors import NodeAgentError

    try:
        for schema in manager.provide_all("nodeagent_settings_schema"):
            jsonschema.Draft202012Validator.check_schema(schema.value)
            if not isinstance(schema.value, dict) or schema.value.get("type") != "object":
                return {"schema": 'it must be of type "object"'}
    except jsonschema.SchemaError as error:
        return {"schema": f"it is no JSON schema: {error.message}"}
    except NodeAgentError as error:
        return {"schema": str(error)}
    return {}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2:])))
