"""Custom resources with a structural schema and CEL rules: 10,000 objects, creations, updates, lists and memory.

The rules are those of a typical operator: a comparison of two fields, a pattern for all items of a list, a map whose
keys are limited, and a transition rule. The same objects of a kind without rules show the cost of the rules.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from benchmarks.api_server import started_server
from benchmarks.figures import Figure, percentile
from tests.integration.programs import ApiServer, wait_until

OBJECTS = 10_000
CONNECTIONS = 16
READ = 5
GROUP = "bench.example.com"
_MERGE = {"Content-Type": "application/merge-patch+json"}
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_RULES: dict[str, list[dict[str, str]]] = {
    "spec": [
        {"rule": "self.minReplicas <= self.replicas", "message": "replicas must be at least minReplicas"},
        {"rule": "self.hosts.all(host, host.matches('^[a-z0-9.-]+$'))", "message": "invalid host"},
        {"rule": "self.limits.all(key, key in ['cpu', 'memory'])", "message": "unsupported limit"},
    ],
    "class": [{"rule": "self == oldSelf", "message": "class is immutable"}],
}


def _figures(kind: str, title: str) -> tuple[Figure, ...]:
    return (
        Figure(f"{kind}_creates", f"{title}: creations until there are {OBJECTS:,}", "1/s"),
        Figure(f"{kind}_create_p99", f"{title}: creation, p99", "ms"),
        Figure(f"{kind}_create_cpu", f"{title}: server CPU per creation, with its store", "ms"),
        Figure(f"{kind}_updates", f"{title}: updates of all {OBJECTS:,}", "1/s"),
        Figure(f"{kind}_update_p99", f"{title}: update, p99", "ms"),
        Figure(f"{kind}_update_cpu", f"{title}: server CPU per update, with its store", "ms"),
        Figure(f"{kind}_list", f"{title}: list of {OBJECTS:,}, median", "s"),
        Figure(f"{kind}_rss", f"{title}: growth of the server's memory (RSS) per object", "KiB"),
    )


FIGURES = (
    *_figures("plain", "without rules"),
    *_figures("ruled", "with four CEL rules"),
    Figure("rejected", "updates that violate a rule and are rejected with 422", f"of {OBJECTS // 10}"),
)


def run() -> dict[str, float]:
    with started_server() as server:
        return asyncio.run(_measure(server))


async def _measure(server: ApiServer) -> dict[str, float]:
    tls = ssl.create_default_context(cafile=server.facts["caFile"])
    headers = {"Authorization": f"Bearer {server.facts['token']}", "Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(ssl=tls, limit=CONNECTIONS)
    async with aiohttp.ClientSession(server.facts["url"], connector=connector, headers=headers) as session:
        result = {}
        for kind in ("plain", "ruled"):
            path = _define(server, kind)
            result |= {f"{kind}_{key}": value for key, value in (await _measure_kind(server, session, path)).items()}
        return result | {"rejected": float(await _count_rejected(session, path))}


async def _measure_kind(server: ApiServer, session: aiohttp.ClientSession, path: str) -> dict[str, float]:
    before = server.rss_mib()

    async def create(number: int) -> None:
        await _request(session, "POST", path, _object(path, number), 201)

    async def update(number: int) -> None:
        changed = _object(path, number, replicas=5)
        await _request(session, "PATCH", f"{path}/item-{number:05d}", {"spec": changed["spec"]}, 200)

    created, updated = await _all(server, create), await _all(server, update)
    times = []
    for _ in range(READ):
        started = time.monotonic()
        await _request(session, "GET", path, None, 200)
        times.append(time.monotonic() - started)
    return {
        **{f"create{key}": value for key, value in created.items()},
        **{f"update{key}": value for key, value in updated.items()},
        "list": percentile(times, 0.5),
        "rss": 1024 * (server.rss_mib() - before) / OBJECTS,
    }


async def _all(server: ApiServer, request: Callable[[int], Awaitable[None]]) -> dict[str, float]:
    """Call *request* with the number of each object on all connections."""
    left, durations = iter(range(OBJECTS)), []

    async def work() -> None:
        for number in left:
            started = time.monotonic()
            await request(number)
            durations.append(1000 * (time.monotonic() - started))

    cpu, started = server.cpu_seconds(), time.monotonic()
    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
    seconds = time.monotonic() - started
    return {
        "s": OBJECTS / seconds,
        "_p99": percentile(durations, 0.99),
        "_cpu": 1000 * (server.cpu_seconds() - cpu) / OBJECTS,
    }


async def _count_rejected(session: aiohttp.ClientSession, path: str) -> int:
    rejected = 0
    for number in range(0, OBJECTS, 10):
        patch = {"spec": {"replicas": 0}}
        async with session.patch(f"{path}/item-{number:05d}", data=json.dumps(patch), headers=_MERGE) as response:
            rejected += response.status == 422
            await response.read()
    return rejected


async def _request(session: aiohttp.ClientSession, method: str, path: str, body: Any, expected: int) -> None:
    headers = _MERGE if method == "PATCH" else None
    data = None if body is None else json.dumps(body)
    async with session.request(method, path, data=data, headers=headers) as response:
        text = await response.read()
        if response.status != expected:
            raise RuntimeError(f"{method} {path}: {response.status} {text[:300].decode(errors='replace')}")


def _define(server: ApiServer, kind: str) -> str:
    """Create a definition and return the path of its objects."""
    rules = _RULES if kind == "ruled" else {}
    text, number = {"type": "string", "maxLength": 64}, {"type": "integer", "minimum": 0}
    spec: dict[str, Any] = {
        "type": "object",
        "required": ["replicas", "minReplicas", "hosts", "limits"],
        "properties": {
            "replicas": number,
            "minReplicas": number,
            "class": text | _validations(rules, "class"),
            "hosts": {"type": "array", "maxItems": 16, "items": text},
            "limits": {"type": "object", "maxProperties": 16, "additionalProperties": text},
        },
        **_validations(rules, "spec"),
    }
    schema = {"type": "object", "properties": {"spec": spec}}
    names = {"plural": f"{kind}s", "singular": kind, "kind": kind.title()}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind}s.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    created = server.request("POST", _CRDS, definition)
    if created["kind"] == "Status":
        raise RuntimeError(f"{kind}: {created['message']}")
    path = f"/apis/{GROUP}/v1/namespaces/default/{kind}s"
    wait_until(lambda: b'"kind":"%sList"' % kind.title().encode() in server.body("GET", path), f"{kind} is served")
    return path


def _validations(rules: dict[str, list[dict[str, str]]], field: str) -> dict[str, Any]:
    return {"x-kubernetes-validations": rules[field]} if field in rules else {}


def _object(path: str, number: int, replicas: int = 3) -> dict[str, Any]:
    kind = path.rpartition("/")[2].removesuffix("s").title()
    hosts = [f"host-{number}-{index}.example.com" for index in range(4)]
    spec = {"replicas": replicas, "minReplicas": 1, "class": "standard", "hosts": hosts}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": {"name": f"item-{number:05d}", "labels": {"app": f"app-{number % 100}"}},
        "spec": {**spec, "limits": {"cpu": "100m", "memory": "64Mi"}},
    }
