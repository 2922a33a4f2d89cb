"""Scenarios: sequences of requests that change objects, and the recorded responses to them.

The recording ``scenarios.jsonl`` has a line for the release, then one per scenario. Bodies and paths of a step may
refer to the namespace of the scenario, and to fields of earlier responses: ``<ns>``, ``<2.metadata.resourceVersion>``,
``<2.metadata.resourceVersion+5>``.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.differential import tables
from tests.differential.cases import RECORDINGS, SCENARIOS, Outcome
from tests.differential.client import Connection, Response
from tests.differential.edits import Json
from tests.differential.runner import CONNECTIONS, Target, normalize, outcome

NAMESPACE = "<ns>"
NODE_GROUP = "system:nodes"
_REFERENCE = re.compile(r"<(\d+)\.([\w.]+)([+-]\d+)?>")
_TOKEN = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+")
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ATTEMPTS, _PAUSE_SECONDS = 100, 0.1
_OF_CONTROLLERS = frozenset(("default", "kube-root-ca.crt"))
"""Objects that controllers of the bundled server create in every namespace."""


@dataclass(frozen=True)
class Step:
    """One request; *body* is JSON, or text as it is sent."""

    method: str
    path: str
    body: Json = None
    content_type: str = "application/json"
    accept: str = "application/json"
    until: str = ""
    """Text that the JSON of the response has once a controller of the server has run; the request is repeated."""
    user: str = ""
    """User that the administrator impersonates, in the group of nodes; messages of 403 responses are then recorded."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields that differ from the defaults."""
        found: dict[str, Any] = {"method": self.method, "path": self.path}
        if self.body is not None:
            found["body"] = self.body
        if self.content_type != "application/json":
            found["contentType"] = self.content_type
        if self.accept != "application/json":
            found["accept"] = self.accept
        if self.until:
            found["until"] = self.until
        if self.user:
            found["user"] = self.user
        return found

    @classmethod
    def from_json(cls, line: dict[str, Any]) -> Step:
        """Return the step of a recorded line."""
        content_type, accept = (line.get(name, "application/json") for name in ("contentType", "accept"))
        until, user = line.get("until", ""), line.get("user", "")
        return cls(line["method"], line["path"], line.get("body"), content_type, accept, until, user)


@dataclass
class Scenario:
    """Steps that run one after another in a dedicated namespace."""

    name: str
    steps: list[Step] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    """Recorded outcome of each step."""

    def to_json(self) -> dict[str, Any]:
        """Return the line of the recording."""
        pairs = zip(self.steps, self.outcomes, strict=True)
        return {"scenario": self.name, "steps": [step.to_json() | _outcome_json(found) for step, found in pairs]}

    @classmethod
    def from_json(cls, line: dict[str, Any]) -> Scenario:
        """Return the scenario of a line."""
        steps = [Step.from_json(item) for item in line["steps"]]
        return cls(line["scenario"], steps, [_outcome(item) for item in line["steps"]])


def write(scenarios: Iterable[Scenario], release: str, name: str = SCENARIOS) -> Path:
    """Write the recording *name* and return its path."""
    path = RECORDINGS / f"{name}.jsonl"
    lines: list[Any] = [{"release": release}, *(scenario.to_json() for scenario in scenarios)]
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines))
    return path


def read(name: str = SCENARIOS) -> list[Scenario]:
    """Return the scenarios of the recording *name*; none without a recording."""
    path = RECORDINGS / f"{name}.jsonl"
    if not path.exists():
        return []
    with path.open() as file:
        _, *lines = (json.loads(line) for line in file)
    return [Scenario.from_json(line) for line in lines]


async def run(target: Target, scenarios: Sequence[Scenario]) -> list[list[Outcome]]:
    """Return the outcomes of the steps of every scenario."""
    found: dict[int, list[Outcome]] = {}
    numbers = iter(range(len(scenarios)))
    suffix = f"{int(time.time()) % 100_000:05}"

    async def work() -> None:
        connection = target.connect()
        try:
            for number in numbers:
                found[number] = await _Run(connection, f"{scenarios[number].name}-{suffix}").steps(scenarios[number])
        finally:
            connection.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(work())
    return [found[number] for number in range(len(scenarios))]


class _Run:
    """One scenario on one server."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self._connection, self._namespace = connection, namespace
        self._bodies: list[Json] = []
        self._versions: dict[str, str] = {}
        """Last resource version by UID."""

    async def steps(self, scenario: Scenario) -> list[Outcome]:
        """Return the outcomes of all steps."""
        for path, obj in (
            ("/api/v1/namespaces", {"metadata": {"name": self._namespace}}),
            (f"/api/v1/namespaces/{self._namespace}/serviceaccounts", {"metadata": {"name": "default"}}),
        ):
            response = await self._connection.request("POST", path, obj)
            if response.code not in (201, 409):
                raise AssertionError(f"set-up of {self._namespace}: {response.body}")
        return [await self._step(step) for step in scenario.steps]

    async def _step(self, step: Step) -> Outcome:
        body = step.body
        if body is not None:
            text = body if isinstance(body, str) else json.dumps(body)
            body = self._resolved(text).encode()
        path = self._resolved(step.path, is_path=True)
        headers = {"Content-Type": step.content_type, "Accept": step.accept}
        if step.user:
            headers |= {"Impersonate-User": self._resolved(step.user), "Impersonate-Group": NODE_GROUP}
        for _ in range(_ATTEMPTS if step.until else 1):
            try:
                response = await self._connection.request(step.method, path, body, headers)
            except (asyncio.IncompleteReadError, ConnectionError):
                response = Response(0, None, ())  # The server closed the connection.
            if step.until in json.dumps(response.body):
                break
            await asyncio.sleep(_PAUSE_SECONDS)
        self._bodies.append(response.body)
        found = self._observed(response)
        if step.user and response.code == 403:
            text = response.body["message"].replace(self._namespace, NAMESPACE)
            found = replace(found, obj={"message": _UID.sub("<uid>", text)})
        return found

    def _resolved(self, text: str, *, is_path: bool = False) -> str:
        def value(match: re.Match[str]) -> str:
            found: Any = self._bodies[int(match[1])]
            for name in match[2].split("."):
                found = found.get(name) if isinstance(found, dict) else None
            shown = str(int(found or 0) + int(match[3])) if match[3] else str(found or "")
            return quote(shown, safe="") if is_path else shown

        return _REFERENCE.sub(value, text.replace(NAMESPACE, self._namespace))

    def _observed(self, response: Response) -> Outcome:
        body: Any = response.body
        if isinstance(body, dict):
            body = _without_suffix(body)
        if isinstance(body, dict | list):
            text = json.dumps(body).replace(self._namespace, NAMESPACE)
            body = json.loads(_TOKEN.sub("<token>", text))
        found = outcome(Response(response.code, body, response.warnings))
        if response.code >= 300 or not isinstance(body, dict | list):
            return found
        return Outcome(found.code, warnings=found.warnings, obj=self._shown(body))

    def _shown(self, body: Any) -> Json:
        """Return what is compared of a response, or of each event of a watch."""
        if isinstance(body, list):
            return {"events": [self._shown(event) for event in body]}
        if body.keys() == {"type", "object"}:
            return {"type": body["type"], "object": self._shown(body["object"])}
        if body.get("kind") == "Table":
            return tables.normalize(body)
        if body.get("kind") == "PartialObjectMetadataList":
            items = body["items"]
            return {**_list({**body, "items": items or []}), "items": items and [self._object(item) for item in items]}
        return _list(body) if isinstance(body.get("items"), list) else self._object(body)

    def _object(self, body: Json) -> Json:
        """Return an object without what differs between runs, with the owners of its fields."""
        metadata = body.get("metadata") or {}
        version, uid = metadata.get("resourceVersion"), metadata.get("uid")
        entries = metadata.get("managedFields")
        shown = normalize(body)
        if uid and version:
            shown["metadata"]["resourceVersion"] = "same" if self._versions.get(uid) == version else "new"
            self._versions[uid] = version
        if entries:
            kept = [{name: value for name, value in entry.items() if name != "time"} for entry in entries]
            shown["metadata"]["managedFields"] = sorted(kept, key=json.dumps)
        return json.loads(_UID.sub("<uid>", json.dumps(shown)))


def _without_suffix(body: Json) -> Json:
    """Return *body* without the random end of a generated name."""
    metadata = body.get("metadata") or {}
    base, name = (metadata.get("generateName") or "")[:58], metadata.get("name") or ""
    if not base or not name.startswith(base):
        return body
    return {**body, "metadata": {**metadata, "name": "<generated>"}}


def _list(body: Json) -> Json:
    """Return kind and names of a list, and whether it continues."""
    metadata = body["metadata"]
    names = [item["metadata"]["name"] for item in body["items"] if item["metadata"]["name"] not in _OF_CONTROLLERS]
    shown = {"kind": body["kind"], "apiVersion": body["apiVersion"], "names": names}
    if metadata.get("continue"):
        shown["continue"] = True
    if "remainingItemCount" in metadata:
        shown["remainingItemCount"] = metadata["remainingItemCount"]
    return shown


def _outcome_json(found: Outcome) -> dict[str, Any]:
    line: dict[str, Any] = {"code": found.code}
    if found.reason:
        line["reason"] = found.reason
    if found.causes:
        line["causes"] = [list(cause) for cause in found.causes]
    if found.warnings:
        line["warnings"] = list(found.warnings)
    if found.obj is not None:
        line["obj"] = found.obj
    return line


def _outcome(line: dict[str, Any]) -> Outcome:
    causes = tuple((reason, path) for reason, path in line.get("causes", ()))
    return Outcome(line["code"], line.get("reason", ""), causes, tuple(line.get("warnings", ())), line.get("obj"))
