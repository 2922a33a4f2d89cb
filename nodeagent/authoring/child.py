"""Child process of the check: import and register a plugin, and print the result as JSON.

``python -m nodeagent.authoring.child NAME MODULE[:OBJECT] PATH…``: the paths are prepended to ``sys.path``.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import sys
import time
import traceback
from typing import Any


def main(plugin_name: str, entry: str, paths: list[str]) -> dict[str, Any]:
    """Return the result of the check.

    It is ``error`` with ``trace``, or ``seconds`` of the import, with ``rejected`` or ``schema`` if invalid, and
    ``deprecated`` as a list of file, line and text.
    """
    sys.path[:0] = paths
    name, _, attribute = entry.partition(":")
    # The agent has already imported these, so the time is not attributed to the plugin.
    from nodeagent import contracts, hookspecs  # noqa: F401
    from nodeagent.errors import PluginError
    from nodeagent.pluginmanager import PluginManager, QuarantinePolicy

    started = time.perf_counter()
    try:
        plugin: Any = importlib.import_module(name)
        seconds = time.perf_counter() - started
        for part in filter(None, attribute.split(".")):
            plugin = getattr(plugin, part)
    except BaseException as error:  # An imported module may raise any exception, including SystemExit.
        trace = [[frame.filename, frame.lineno] for frame in traceback.extract_tb(error.__traceback__)]
        if isinstance(error, SyntaxError):
            trace.append([error.filename, error.lineno])
        return {"error": f"{type(error).__name__}: {error}", "trace": trace}
    manager = PluginManager()
    _declare_hooks_of_others(manager, plugin_name)
    result: dict[str, Any] = {"seconds": seconds}
    try:
        manager.register(plugin, name=plugin_name)
        manager.contain(QuarantinePolicy(), [plugin_name])  # A failure is not to be skipped.
    except PluginError as error:
        return result | {"rejected": str(error)}
    deprecated = [[each.file, each.line, each.text] for each in manager.deprecations]
    return result | {"deprecated": deprecated} | _schema_problem(manager)


def _declare_hooks_of_others(manager: Any, plugin_name: str) -> None:
    """Declare the hooks of other installed plugins; those that fail are skipped, as by the agent."""
    from nodeagent.pluginmanager.discovery import GROUP, distribution_of, entry_points_by_name

    for name, entry in entry_points_by_name(importlib.metadata.entry_points(group=GROUP)).items():
        if name != plugin_name and distribution_of(entry)[0] != "nodeagent":
            with contextlib.suppress(Exception, SystemExit):
                manager.add_hooks(entry.load(), name)


def _schema_problem(manager: Any) -> dict[str, Any]:
    import jsonschema

    from nodeagent.errors import NodeAgentError

    try:
        for schema in manager.provide_all("nodeagent_settings_schema"):
            jsonschema.Draft202012Validator.check_schema(schema.value)
            if not isinstance(schema.value, dict) or schema.value.get("type") != "object":
                return {"schema": 'must be of type "object"'}
    except jsonschema.SchemaError as error:
        return {"schema": f"invalid JSON schema: {error.message}"}
    except NodeAgentError as error:
        return {"schema": str(error)}
    return {}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], sys.argv[3:])))
