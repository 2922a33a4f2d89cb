"""Recorded cases: a request derived from a base object, and the response of kube-apiserver to it.

A recording is a file of JSON lines per resource. The first line names the resource and the release; then follow base
objects with the object that the server stores for each, then the cases. A case holds only differences: its request to
the base, its stored object to the one stored for the base.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.differential.catalog import Resource
from tests.differential.edits import Edit, Json

RECORDINGS = Path(__file__).parent / "recordings"
NEWEST_RECORDINGS = RECORDINGS / "release-1.36"
UNIT_RECORDINGS = RECORDINGS / "unit"
"""Recordings for unit tests, in a directory per release, with few cases: each has another effect on the code."""
SCENARIOS, TABLES, NODES, JOBS = "scenarios", "tables", "nodes-1.36", "jobs-1.36"
"""Names of the recordings of scenarios, which are not about cases of one resource."""
NEWEST_SCENARIOS = (NODES, JOBS)
"""Those of release 1.36."""


@dataclass(frozen=True)
class Outcome:
    """Observable facts of an response: status, reason, invalid fields, warnings and the normalized object."""

    code: int
    reason: str = ""
    causes: tuple[tuple[str, str], ...] = ()
    """Reason and field path of each cause, sorted."""
    warnings: tuple[str, ...] = ()
    obj: Json = None
    messages: tuple[str, ...] = field(default=(), compare=False)
    """Texts for people, recorded only for unit tests."""


@dataclass(frozen=True)
class Case:
    """One request: *verb* on the base number *base*, changed by *edit*, or with *body* unchanged."""

    verb: str
    base: int
    edit: Edit = field(default_factory=Edit)
    subresource: str = ""
    patch: str = ""
    """Kind of patch: ``json``, ``merge``, ``strategic`` or ``apply``."""
    body: Json = None
    query: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the members that are not empty."""
        found: dict[str, Any] = {"verb": self.verb, "base": self.base}
        found |= {name: value for name in ("subresource", "patch", "query") if (value := getattr(self, name))}
        if self.body is not None:
            found["body"] = self.body
        return found | _edit_json(self.edit, "set", "unset")

    @classmethod
    def from_json(cls, line: dict[str, Any]) -> Case:
        """Return the case of a line."""
        edit = Edit(line.get("set", {}), tuple(line.get("unset", ())))
        texts = {name: line.get(name, "") for name in ("subresource", "patch", "query")}
        return cls(line["verb"], line["base"], edit, body=line.get("body"), **texts)


@dataclass(frozen=True)
class Response:
    """The recorded outcome of a case; the object is the difference to the one stored for the base."""

    outcome: Outcome
    change: Edit | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the members that are not empty."""
        outcome = self.outcome
        found: dict[str, Any] = {"code": outcome.code}
        if outcome.reason:
            found["reason"] = outcome.reason
        if outcome.causes:
            found["causes"] = [list(cause) for cause in outcome.causes]
        if outcome.warnings:
            found["warnings"] = list(outcome.warnings)
        if outcome.messages:
            found["messages"] = list(outcome.messages)
        return found | (_edit_json(self.change, "stored", "dropped") if self.change else {})

    @classmethod
    def from_json(cls, line: dict[str, Any], stored: Json) -> Response:
        """Return the response of a line; *stored* is the object stored for its base."""
        causes = tuple((reason, field) for reason, field in line.get("causes", ()))
        change = Edit(line.get("stored", {}), tuple(line.get("dropped", ())))
        obj = change.apply(stored) if line["code"] < 300 else None
        warnings, messages = (tuple(line.get(name, ())) for name in ("warnings", "messages"))
        return cls(Outcome(line["code"], line.get("reason", ""), causes, warnings, obj, messages), change)


@dataclass
class Recording:
    """Everything that is recorded of one resource."""

    resource: str
    release: str
    bases: list[tuple[Json, Json]] = field(default_factory=list)
    """Object as a client sends it, and normalized as the server stores it."""
    cases: list[tuple[Case, Response]] = field(default_factory=list)

    @property
    def catalogued(self) -> Resource:
        """Resource with the base objects of the recording."""
        bases = tuple(base for base, _ in self.bases)
        return Resource(self.resource, bases[0]["apiVersion"], bases[0]["kind"], bases)

    def write(self, directory: Path = RECORDINGS) -> Path:
        """Write the file and return its path."""
        lines: list[Any] = [{"resource": self.resource, "release": self.release}]
        lines += [{"object": obj, "stored": stored} for obj, stored in self.bases]
        lines += [case.to_json() | response.to_json() for case, response in self.cases]
        directory.mkdir(exist_ok=True)
        path = directory / f"{self.resource.replace('/', '_')}.jsonl"
        path.write_text("".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines))
        return path

    @classmethod
    def read(cls, path: Path) -> Recording:
        """Return the recording of a file."""
        with path.open() as file:
            head, *lines = (json.loads(line) for line in file)
        recording = cls(head["resource"], head["release"])
        for line in lines:
            if "object" in line:
                recording.bases.append((line["object"], line["stored"]))
            else:
                stored = recording.bases[line["base"]][1]
                recording.cases.append((Case.from_json(line), Response.from_json(line, stored)))
        return recording


def recordings(names: Iterable[str] = (), directory: Path = RECORDINGS) -> list[Path]:
    """Return the files in *directory* of the named resources, of all without names."""
    selected = {name.replace("/", "_") for name in names}
    paths = (
        path for path in sorted(directory.glob("*.jsonl")) if path.stem not in (SCENARIOS, TABLES, *NEWEST_SCENARIOS)
    )
    return [path for path in paths if not selected or path.stem in selected]


def _edit_json(edit: Edit, changed: str, removed: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if edit.set:
        found[changed] = edit.set
    if edit.unset:
        found[removed] = list(edit.unset)
    return found
