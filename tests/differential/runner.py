"""Sending of cases to a server, and the observable facts of its responses."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.differential.cases import Case, Outcome
from tests.differential.catalog import Resource, setup_objects
from tests.differential.client import Connection, Response
from tests.differential.edits import Json

CONNECTIONS = 8
_CONDITIONS = {"apiservices": "Available", "customresourcedefinitions": "InitialNamesAccepted"}
"""Type or reason of the condition that a controller of the server sets last, by resource."""
_ATTEMPTS, _PAUSE_SECONDS = 100, 0.1
_PATCHES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_VOLATILE = ("uid", "resourceVersion", "creationTimestamp", "selfLink", "managedFields")
_ALLOCATED = ("clusterIP", "clusterIPs", "healthCheckNodePort")
_NOW = re.compile(r'"20(?:2[5-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"')
"""Times after the recorded objects' own, which are of 2024."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OWN_LABEL = re.compile(rf'("(?:batch\.kubernetes\.io/)?controller-uid": )"{_UUID.pattern}"')
"""Labels of a Job with its UID."""
_TOKEN_VOLUME = re.compile(r"kube-api-access-[a-z0-9]{5}")


@dataclass(frozen=True)
class Target:
    """A server to send requests to, as an administrator."""

    url: str
    ca_file: str
    token: str

    def connect(self) -> Connection:
        return Connection(self.url, self.ca_file, self.token)


@dataclass
class Runner:
    """The cases of one resource on one server."""

    target: Target
    resource: Resource
    stored: dict[int, Json] = field(default_factory=dict)
    """Objects of the bases as the server stores them."""
    settles: bool = True
    """``False`` if no controllers run, so that objects have no conditions."""

    async def bases(self) -> list[Outcome]:
        """Return the outcomes of creating the base objects, as dry runs."""
        return await self._send([Case("create", number) for number in range(len(self.resource.bases))])

    async def run(self, cases: Sequence[Case]) -> list[Outcome]:
        """Return the outcomes of *cases*, in their order; all requests are dry runs.

        The base objects are stored after the creations, which would find their names in use, and deleted at the end.
        """
        creations = [number for number, case in enumerate(cases) if case.verb == "create"]
        others = [number for number, case in enumerate(cases) if case.verb != "create"]
        outcomes = dict(zip(creations, await self._send([cases[number] for number in creations]), strict=True))
        if others:
            await self._store()
            outcomes |= zip(others, await self._send([cases[number] for number in others]), strict=True)
            await self._delete()
        return [outcomes[number] for number in range(len(cases))]

    async def _store(self) -> None:
        connection = self.target.connect()
        try:
            for number, base in sorted(enumerate(self.resource.bases), key=_selects_address):
                response = await connection.request("POST", self.resource.path, _named(base, number))
                if response.code != 201:
                    raise AssertionError(f"base {number} of {self.resource.name}: {response.code} {response.body}")
                path = f"{self.resource.path}/{base_name(base, number)}"
                self.stored[number] = await self._settled(connection, path)
        finally:
            connection.close()

    async def _settled(self, connection: Connection, path: str) -> Json:
        """Return the object at *path*, with the conditions that a controller of the server sets."""
        for _ in range(_ATTEMPTS):
            obj = (await connection.request("GET", path)).body
            conditions = (obj.get("status") or {}).get("conditions") or ()
            expected = _CONDITIONS.get(self.resource.plural) if self.settles else None
            if expected is None or any(expected in (item["type"], item["reason"]) for item in conditions):
                return obj
            await asyncio.sleep(_PAUSE_SECONDS)
        raise AssertionError(f"{path} has no conditions")

    async def _delete(self) -> None:
        connection = self.target.connect()
        try:
            for number, base in enumerate(self.resource.bases):
                path = f"{self.resource.path}/{base_name(base, number)}?gracePeriodSeconds=0"
                await connection.request("DELETE", path)
        finally:
            connection.close()

    async def _send(self, cases: Sequence[Case]) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}
        numbers = iter(range(len(cases)))

        async def work() -> None:
            connection = self.target.connect()
            try:
                for number in numbers:
                    outcomes[number] = await self._outcome(connection, cases[number])
            finally:
                connection.close()

        async with asyncio.TaskGroup() as group:
            for _ in range(CONNECTIONS):
                group.create_task(work())
        return [outcomes[number] for number in range(len(cases))]

    async def _outcome(self, connection: Connection, case: Case) -> Outcome:
        try:
            method, path, body, content_type = self.request(case)
        except (LookupError, ValueError, TypeError, AttributeError) as error:
            return Outcome(0, messages=(f"the stored base has another shape: {error!r}",))
        query = "&".join(filter(None, ["dryRun=All" if self.resource.stored else "", case.query]))
        try:
            response = await connection.request(method, f"{path}?{query}", body, {"Content-Type": content_type})
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            return Outcome(0, messages=(f"the server closed the connection: {error!r}",))
        return outcome(response)

    def request(self, case: Case) -> tuple[str, str, Json, str]:
        """Return method, path, body and media type of *case*."""
        base = self.resource.bases[case.base]
        if case.verb == "create":
            body = case.body if case.body is not None else case.edit.apply(base)
            return "POST", self.resource.path, body, "application/json"
        path = f"{self.resource.path}/{base_name(base, case.base)}"
        if case.subresource:
            path += f"/{case.subresource}"
        if case.verb == "patch":
            return "PATCH", path, case.body, _PATCHES[case.patch]
        stored = {**self.stored[case.base]}
        stored["metadata"] = {**stored["metadata"]}
        stored["metadata"].pop("managedFields", None)
        return "PUT", path, case.edit.apply(stored), "application/json"


def base_name(base: Json, number: int) -> str:
    """Return the name of the stored object of base *number*."""
    metadata = base.get("metadata") or {}
    return str(metadata.get("name") or f"base-{number}")


def _named(obj: Json, number: int) -> Json:
    return {**obj, "metadata": {**obj.get("metadata", {}), "name": base_name(obj, number)}}


def _selects_address(item: tuple[int, Json]) -> bool:
    """Return whether the server selects the address of a base object; it might select one that another base sets."""
    return not (item[1].get("spec") or {}).get("clusterIP")


async def set_up(target: Target) -> None:
    """Create the objects that exist before the first case."""
    connection = target.connect()
    try:
        for obj in setup_objects():
            version, kind, metadata = obj["apiVersion"], obj["kind"], obj["metadata"]
            root = f"/apis/{version}" if "/" in version else f"/api/{version}"
            namespace = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
            plural = f"{kind.lower()}es" if kind.endswith("s") else f"{kind.lower()}s"
            response = await connection.request("POST", f"{root}{namespace}/{plural}", obj)
            if response.code not in (201, 409):
                raise AssertionError(f"set-up of {kind}: {response.body}")
    finally:
        connection.close()


def outcome(response: Response) -> Outcome:
    """Return the observable facts of *response*."""
    body: Any = response.body
    warnings = tuple(sorted(text.partition(' - "')[2].removesuffix('"') for text in response.warnings))
    if response.code < 300:
        return Outcome(response.code, warnings=warnings, obj=normalize(body))
    if not isinstance(body, dict):
        return Outcome(response.code, warnings=warnings, messages=(str(body),))
    causes = (body.get("details") or {}).get("causes") or []
    pairs = tuple(sorted((cause.get("reason", ""), cause.get("field", "")) for cause in causes))
    texts = tuple(f"{cause.get('field', '')}: {cause.get('message', '')}" for cause in causes)
    return Outcome(response.code, body.get("reason", ""), pairs, warnings, messages=texts or (body.get("message", ""),))


def normalize(obj: Json) -> Json:
    """Return *obj* without what differs from one run to the next: identifiers, times, random names and addresses."""
    if not isinstance(obj, dict):
        return obj
    text = _TOKEN_VOLUME.sub("kube-api-access-random", json.dumps(obj))
    result = json.loads(_NOW.sub('"<now>"', text))
    metadata = result.get("metadata")
    if isinstance(metadata, dict):
        for name in _VOLATILE:
            metadata.pop(name, None)
        generate_name = metadata.get("generateName") or ""
        if generate_name and str(metadata.get("name") or "").startswith(generate_name[:58]):
            metadata["name"] = "<generated>"
        elif _UUID.fullmatch(str(metadata.get("name"))):
            metadata["name"] = "<random>"
    if result.get("kind") == "SelfSubjectRulesReview":
        for rules in filter(None, map((result.get("status") or {}).get, ("resourceRules", "nonResourceRules"))):
            rules.sort(key=json.dumps)  # upstream's order is that of a Go map
    if result.get("kind") == "Service":
        _without_allocations(result)
    elif result.get("kind") == "Job":
        result = json.loads(_OWN_LABEL.sub(r'\1"<uid>"', json.dumps(result)))
    return result


def _without_allocations(service: Json) -> None:
    spec = service.get("spec") or {}
    for name in _ALLOCATED:
        if name in spec and spec[name] not in ("None", ["None"], "", 0):
            spec[name] = "<allocated>"
    for port in spec.get("ports") or ():
        if port.get("nodePort"):
            port["nodePort"] = "<allocated>"
