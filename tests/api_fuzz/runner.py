"""Run of the fuzz test: batches of requests, each against a server without objects of the one before."""

from __future__ import annotations

import asyncio
import collections
import heapq
import itertools
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.api_fuzz.catalog import Catalog, Target, definitions, read_catalog
from tests.api_fuzz.checks import message, problem
from tests.api_fuzz.client import Connection, Reply
from tests.api_fuzz.requests import NAMESPACES, ONLY_DRY_RUN, FuzzRequest, generate
from tests.integration.programs import ApiServer, wait_until

_COMPACTION_SECONDS = 20
_SETTLE_SECONDS = 2.5 * _COMPACTION_SECONDS
"""Time until the history of deleted objects is released."""
_EVERYTHING = (
    "--compatibility-version=1.36",
    "--runtime-config=api/all=true",
    "--feature-gates=AllAlpha=true,AllBeta=true",
    "--allow-privileged=true",
    "--service-cluster-ip-range=10.96.0.0/14",
    "--enable-admission-plugins=AlwaysPullImages,DenyServiceExternalIPs,ExtendedResourceToleration,"
    "LimitPodHardAntiAffinityTopology,NodeRestriction,OwnerReferencesPermissionEnforcement,PodNodeSelector,"
    "PodTolerationRestriction",
    f"--store-compaction-interval={_COMPACTION_SECONDS}s",
    "--audit-log-maxsize=20",
    "--audit-log-maxbackup=1",
)
_AUDIT_POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "RequestResponse"}]}
_SLOWEST = 12
_CLEAN_UPS = 5
_MOST_FAILURES = 200
_DETAILS = re.compile(r"""(?:"|'|\().*|[\w/.-]*[/\d][\w/.-]*|\n.*""", re.DOTALL)
"""Parts of messages that differ between errors of one kind."""
_TASKS = "/debug/pprof/goroutine?debug=1"
_TRACEBACK = re.compile(r"^(?:Traceback|\w+(?:\.\w+)*(?:Error|Exception)\b)|panic'd|Unhandled|never retrieved", re.M)


@dataclass(frozen=True)
class Usage:
    """Resources that a server uses between requests."""

    rss_mib: float
    descriptors: int
    threads: int
    tasks: Mapping[str, int]
    """Number of tasks of the event loop by their innermost function."""

    def text(self) -> str:
        counts = f"{self.descriptors} descriptors, {self.threads} threads, {sum(self.tasks.values())} tasks"
        return f"{self.rss_mib:.1f} MiB, {counts}"


@dataclass
class Report:
    """Outcome of a run."""

    requests: int = 0
    seconds: float = 0.0
    codes: collections.Counter[int] = field(default_factory=collections.Counter)
    failures: list[tuple[int, FuzzRequest, str]] = field(default_factory=list)
    failed: int = 0
    upstream_errors: collections.Counter[str] = field(default_factory=collections.Counter)
    """Responses with code 5xx that are no failures, by message."""
    slowest: list[tuple[float, int, str]] = field(default_factory=list)
    usage: dict[str, Usage] = field(default_factory=dict)
    tracebacks: int = 0

    def add(self, number: int, request: FuzzRequest, reply: Reply, previous: FuzzRequest | None = None) -> str:
        """Add one response, and return the reason why it is wrong, or an empty string.

        :param previous: request before it on the same connection.
        """
        self.requests += 1
        self.codes[reply.code] += 1
        found = problem(request, reply)
        if found:
            self.failed += 1
            if reply.error and previous is not None:
                found += f" after {previous.to_json()}"
            if len(self.failures) < _MOST_FAILURES:
                self.failures.append((number, request, found))
        elif reply.code >= 500:
            text = message(reply)
            self.upstream_errors[f"{reply.code} {_DETAILS.sub('…', text)[:160]}"] += 1
        if not request.is_watch:
            item = (reply.seconds, number, f"{request.method} {request.path[:160]}")
            (heapq.heappush if len(self.slowest) < _SLOWEST else heapq.heappushpop)(self.slowest, item)
        return found

    def text(self) -> str:
        lines = [
            f"{self.requests} requests in {self.seconds:.1f} s, {self.failed} failed, {self.tracebacks} tracebacks"
        ]
        lines.append("codes: " + ", ".join(f"{code or 'none'} × {count}" for code, count in sorted(self.codes.items())))
        lines += [f"{name}: {usage.text()}" for name, usage in self.usage.items()]
        if len(self.usage) > 1:
            first, last = next(iter(self.usage.values())).tasks, list(self.usage.values())[-1].tasks
            more = {name: last[name] - first.get(name, 0) for name in last if last[name] > first.get(name, 0)}
            lines += [f"more tasks: {count} × {name}" for name, count in sorted(more.items())]
        lines += [f"slow: {seconds:.3f} s, request {number}: {path}" for seconds, number, path in sorted(self.slowest)]
        lines += [f"expected: {count} × {text}" for text, count in self.upstream_errors.most_common(20)]
        lines += [
            f"failed: request {number}: {text}\n  {request.to_json()[:2000]}" for number, request, text in self.failures
        ]
        return "\n".join(lines)


class Fuzzer:
    """A server with everything enabled, and the requests to it.

    :param failed: called with number, request and reason of each failure as it occurs.
    """

    def __init__(
        self,
        directory: Path,
        *,
        connections: int = 16,
        options: Sequence[str] = (),
        failed: Callable[[int, FuzzRequest, str], None] = lambda *_: None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.server = ApiServer(directory)
        policy = directory / "audit.json"
        policy.write_text(json.dumps(_AUDIT_POLICY))
        audit = (f"--audit-policy-file={policy}", f"--audit-log-path={directory / 'audit.log'}")
        self._options = (*_EVERYTHING, *audit, *options)
        self._connections, self._failed = connections, failed
        self._initial: dict[str, set[str]] = {}
        self.report = Report()
        self.catalog = Catalog((), ())

    def start(self) -> None:
        """Start the server and read its documents."""
        self.server.start(*self._options)
        self._create_definitions()
        self.catalog = read_catalog(self.server.get)
        self._delete_definitions()
        self._initial = {path: self._names(path) for path in self._collections()}
        self.report.usage["initial"] = self.usage()

    def usage(self) -> Usage:
        """Return the resources of the server."""
        process = Path(f"/proc/{self.server.pid}")
        descriptors, threads = (len(list((process / name).iterdir())) for name in ("fd", "task"))
        return Usage(self.server.rss_mib(), descriptors, threads, self._tasks())

    def _tasks(self) -> collections.Counter[str]:
        """Return the number of tasks by function, without the one that responds."""
        stacks = self.server.body("GET", _TASKS).decode().split("\n\n")[1:]
        return collections.Counter(stack.strip().rpartition("\n")[2].strip() for stack in stacks)

    def stop(self) -> None:
        """Stop the server and count the errors in its log."""
        assert self.server.stop() == 0, self.server.tail()
        self.report.tracebacks = len(_TRACEBACK.findall(self.server.log.read_text(errors="replace")))

    def send(self, requests: Iterable[tuple[int, FuzzRequest]]) -> None:
        """Send one batch of requests; no objects remain."""
        self._prepare()
        started = time.monotonic()
        asyncio.run(self._send(iter(requests)))
        self.report.seconds += time.monotonic() - started
        self._clean_up()

    async def _send(self, requests: Iterator[tuple[int, FuzzRequest]]) -> None:
        facts = self.server.facts

        async def work() -> None:
            connection = Connection(facts["url"], facts["token"], facts["caFile"])
            try:
                for number, request in requests:
                    reply = await connection.send(request)
                    if found := self.report.add(number, request, reply, connection.previous):
                        self._failed(number, request, found)
                    if not self.server.alive():
                        raise RuntimeError(f"the server exited:\n{self.server.tail()}")
            finally:
                await connection.close()

        await asyncio.gather(*(work() for _ in range(self._connections)))

    # Objects

    def _prepare(self) -> None:
        for name in NAMESPACES:
            self._until_created("/api/v1/namespaces", {"metadata": {"name": name}})
        self._until_created("/api/v1/nodes", {"metadata": {"name": "node-1"}})
        self._create_definitions()
        for target in self.catalog.objects():
            if "create" in target.verbs and "get" in target.verbs and target.plural not in ONLY_DRY_RUN:
                for example in target.examples:
                    for namespace in NAMESPACES if target.namespaced else ("",):
                        self.server.request("POST", target.path(namespace, ""), example)

    def _until_created(self, path: str, body: dict[str, Any]) -> None:
        """Create an object once an earlier one of the same name is removed."""
        response: dict[str, Any] = {}

        def created() -> bool:
            response.update(self.server.request("POST", path, body))
            assert response.get("code") != 422, response
            return bool(response["kind"] != "Status")

        wait_until(created, f"created {path}: {response}")

    def _create_definitions(self) -> None:
        root = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for item in definitions():
            self._until_created(root, item)
            path = f"/apis/{item['spec']['group']}/v1/{item['spec']['names']['plural']}"
            wait_until(partial(self._serves, path), f"served {path}")

    def _delete_definitions(self) -> None:
        for item in definitions():
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{item['metadata']['name']}"
            self.server.request("DELETE", path)
            wait_until(lambda path=path: not self._serves(path), f"removed {path}")

    def _serves(self, path: str) -> bool:
        try:
            return bool(self.server.get(path)["kind"] != "Status")
        except ValueError:  # one line of text
            return False

    def _collections(self) -> list[str]:
        """Return the paths of all collections, each of one version."""
        found: dict[tuple[str, str], Target] = {}
        for target in self.catalog.objects():
            if {"list", "delete"} <= target.verbs and target.group != definitions()[0]["spec"]["group"]:
                found.setdefault((target.group, target.plural), target)
        return [target.path("", "") for target in found.values()]

    def _names(self, path: str) -> set[str]:
        items = self.server.get(path).get("items") or []
        return {f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}" for item in items}

    def _clean_up(self) -> None:
        """Delete all objects that were created since the start."""
        left: list[str] = []
        for _ in range(_CLEAN_UPS):
            left = [path for path in self._collections() if self._delete_new(path)]
            if not left:
                return
        # Controllers create some objects again, such as endpoints; a namespace ends after its contents.
        wait_until(lambda: not [path for path in left if self._delete_new(path)], f"deleted {left}", 60.0, every=1.0)

    def _delete_new(self, path: str) -> bool:
        """Delete new objects of a collection, and return whether there were any."""
        new = self._names(path) - self._initial.get(path, set())
        root, _, plural = path.rpartition("/")
        for item in new:
            namespace, name = item.split("/", 1)
            name = quote(name, safe="")  # Some kinds permit any character in a path segment.
            one = f"{root}/namespaces/{namespace}/{plural}/{name}" if namespace else f"{path}/{name}"
            status = self.server.request("DELETE", one, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
            if (status.get("metadata") or {}).get("finalizers"):
                merge = "application/merge-patch+json"
                self.server.request("PATCH", one, {"metadata": {"finalizers": None}}, merge)
        return bool({item for item in new if not item.split("/", 1)[0] and plural == "namespaces"} or new)


def run(
    directory: Path,
    seed: int,
    numbers: range,
    *,
    batch: int,
    connections: int,
    replay: Sequence[FuzzRequest] = (),
    progress: Callable[[str], None] = lambda _: None,
    failed: Callable[[int, FuzzRequest, str], None] = lambda *_: None,
) -> Report:
    """Send the requests *replay*, then *numbers* of the sequence *seed*, in batches, and return the report."""
    fuzzer = Fuzzer(directory, connections=connections, failed=failed)
    fuzzer.start()
    try:
        for start in range(0, max(1, len(numbers)), batch):
            generated = ((number, generate(fuzzer.catalog, seed, number)) for number in numbers[start : start + batch])
            fuzzer.send(itertools.chain(enumerate(replay) if not start else (), generated))
            if not start and len(numbers) > batch:
                time.sleep(_SETTLE_SECONDS)
                fuzzer.report.usage["after the first batch"] = fuzzer.usage()
            progress(f"{fuzzer.report.requests} requests, {fuzzer.report.failed} failed, {fuzzer.usage().text()}")
        if len(numbers) > batch:
            time.sleep(_SETTLE_SECONDS)
        fuzzer.report.usage["at the end"] = fuzzer.usage()
    finally:
        fuzzer.stop()
    return fuzzer.report
