"""Schemas in published documents that are not derived from the shapes of kinds."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object

PATCH: Object = {"description": "Patch in one of the patch formats.", "type": "object"}
_FIELDS = {
    "major": "Major version.",
    "minor": "Minor version.",
    "gitVersion": "Version with the patch number.",
    "gitCommit": "Commit of the source.",
    "gitTreeState": "State of the source: clean, or dirty if it was changed after the commit.",
    "buildDate": "Time of the build.",
    "goVersion": "Version of the compiler.",
    "compiler": "Name of the compiler.",
    "platform": "Operating system and architecture.",
}
_COMPATIBILITY_FIELDS = {
    "emulationMajor": "Major version of the emulated release.",
    "emulationMinor": "Minor version of the emulated release.",
    "minCompatibilityMajor": "Major version of the oldest compatible release.",
    "minCompatibilityMinor": "Minor version of the oldest compatible release.",
}
_COMPATIBILITY_SINCE = 33


def version(minor: int, *, v3: bool) -> Object:
    """Return the schema of ``/version`` at minor release *minor*."""
    fields: Object = {name: _text(text) for name, text in _FIELDS.items()}
    if v3:
        for field in fields.values():
            field["default"] = ""
    if minor >= _COMPATIBILITY_SINCE:
        fields |= {name: _text(text) for name, text in _COMPATIBILITY_FIELDS.items()}
    return {
        "description": "Version of the server.",
        "type": "object",
        "required": list(_FIELDS),
        "properties": dict(sorted(fields.items())),
    }


def watch_event(content: Object, *, v3: bool) -> Object:
    """Return the schema of the events of a watch; *content* is a reference to that of their objects."""
    kind = _text("ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.")
    return {
        "description": "Change of a watched object.",
        "type": "object",
        "required": ["type", "object"],
        "properties": {
            "object": {"description": "Object after the change.", **({"allOf": [content]} if v3 else content)},
            "type": {**kind, "default": ""} if v3 else kind,
        },
    }


def _text(description: str) -> Object:
    return {"description": description, "type": "string"}
