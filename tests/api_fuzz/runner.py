"""Run of the fuzz test: batches of requests, each against a server without objects of the one before."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.api_fuzz.catalog import Catalog, Target, definitions, read_catalog
from tests.api_fuzz.client import Connection
from tests.api_fuzz.report import Report
from tests.api_fuzz.requests import NAMESPACES, ONLY_DRY_RUN, FuzzRequest, generate
from tests.api_fuzz.session import Session
from tests.api_fuzz.usage import Usage, measure
from tests.api_fuzz.warm_up import warm_up
from tests.integration.programs import ApiServer, wait_until

_COMPACTION_SECONDS = 20
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
_CLEAN_UPS, _CLEAN_UP_SECONDS = 5, 60.0
_DELETE_OPTIONS = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
_TRACEBACK = re.compile(r"^ *Traceback|panic'd|Unhandled|never retrieved", re.M)


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
        facts = self.server.facts
        self._session = Session(facts["url"], facts["token"], facts["caFile"])
        self._create_definitions()
        self.catalog = read_catalog(self._session.get)
        self._delete_definitions()
        self._initial = {path: self._names(path) for path in self._collections()}

    def usage(self, *, completely: bool = False) -> Usage:
        """Return the resources of the server.

        :param completely: include allocated memory.
        """
        return measure(self.server.pid, self._session, completely=completely)

    def stop(self) -> None:
        """Stop the server and count the errors in its log."""
        self._session.close()
        assert self.server.stop() == 0, self.server.tail()
        self.report.tracebacks = len(_TRACEBACK.findall(self.server.log.read_text(errors="replace")))

    def requests(self, seed: int, numbers: range) -> Iterator[tuple[int, FuzzRequest]]:
        """Return the requests with these numbers of the sequence *seed*."""
        return ((number, generate(self.catalog, seed, number)) for number in numbers)

    def send(self, requests: Iterable[tuple[int, FuzzRequest]], *, connections: int | None = None) -> None:
        """Send one batch of requests; its objects remain until :meth:`clean_up`."""
        self._prepare()
        started = time.monotonic()
        asyncio.run(self._send(iter(requests), connections or self._connections))
        self.report.seconds += time.monotonic() - started

    async def _send(self, requests: Iterator[tuple[int, FuzzRequest]], connections: int) -> None:
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

        await asyncio.gather(*(work() for _ in range(connections)))

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
                        self._session.request("POST", target.path(namespace, ""), example)

    def _until_created(self, path: str, body: dict[str, Any]) -> None:
        """Create an object once an earlier one of the same name is removed."""
        response: dict[str, Any] = {}

        def created() -> bool:
            response.update(self._session.request("POST", path, body))
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
            self._session.request("DELETE", path)
            wait_until(partial(self._is_absent, path), f"removed {path}")

    def _is_absent(self, path: str) -> bool:
        return not self._serves(path)

    def _serves(self, path: str) -> bool:
        return bool(self._session.get(path)["kind"] != "Status")

    def _collections(self) -> list[str]:
        """Return the paths of all collections, each of one version."""
        found: dict[tuple[str, str], Target] = {}
        for target in self.catalog.objects():
            if {"list", "delete"} <= target.verbs and target.group != definitions()[0]["spec"]["group"]:
                found.setdefault((target.group, target.plural), target)
        return [target.path("", "") for target in found.values()]

    def _names(self, path: str) -> set[str]:
        items = self._session.get(path).get("items") or []
        return {f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}" for item in items}

    def clean_up(self) -> None:
        """Delete all objects that were created since the start."""
        left: list[str] = []
        self._delete_collections()
        for _ in range(_CLEAN_UPS):
            left = [path for path in self._collections() if self._delete_new(path)]
            if not left:
                return
        # Controllers create some objects again, such as endpoints; a namespace ends after its contents.
        limit = time.monotonic() + _CLEAN_UP_SECONDS
        while left and time.monotonic() < limit:
            time.sleep(1.0)
            left = [path for path in left if self._delete_new(path)]
        if left:
            self.report.not_deleted.append(f"{', '.join(left)} after {self.report.requests} requests")

    def _delete_collections(self) -> None:
        """Delete most objects of the namespaces with few requests; others have finalizers, or are created again."""
        for target in self.catalog.objects():
            if target.namespaced and "deletecollection" in target.verbs:
                for namespace in NAMESPACES:
                    self._session.request("DELETE", target.path(namespace, ""), _DELETE_OPTIONS)

    def _delete_new(self, path: str) -> bool:
        """Delete new objects of a collection, and return whether there were any."""
        new = self._names(path) - self._initial.get(path, set())
        root, _, plural = path.rpartition("/")
        for item in new:
            namespace, name = item.split("/", 1)
            name = quote(name, safe="")  # Some kinds permit any character in a path segment.
            one = f"{root}/namespaces/{namespace}/{plural}/{name}" if namespace else f"{path}/{name}"
            status = self._session.request("DELETE", one, _DELETE_OPTIONS)
            if (status.get("metadata") or {}).get("finalizers"):
                merge = "application/merge-patch+json"
                self._session.request("PATCH", one, {"metadata": {"finalizers": None}}, merge)
            if plural == "namespaces" and set((status.get("spec") or {}).get("finalizers") or ()) - {"kubernetes"}:
                self._session.request("PUT", f"{one}/finalize", {**status, "spec": {"finalizers": ["kubernetes"]}})
        return bool(new)


def run(
    directory: Path,
    seed: int,
    numbers: range,
    *,
    batch: int,
    connections: int,
    settle_seconds: float = 0.0,
    warm_up_batches: int = 1,
    replay: Sequence[FuzzRequest] = (),
    stopped: Callable[[], bool] = lambda: False,
    progress: Callable[[str], None] = lambda _: None,
    failed: Callable[[int, FuzzRequest, str], None] = lambda *_: None,
) -> Report:
    """Send the requests *replay*, then *numbers* of the sequence *seed*, in batches, and return the report.

    :param stopped: return whether to send no further requests; checked after each batch.
    :param settle_seconds: time until the memory of deleted objects is released; 0: only the initial memory is measured.
    :param warm_up_batches: number of batches before the initial memory of a server in use is measured.
    """
    fuzzer = Fuzzer(directory, connections=connections, failed=failed)
    fuzzer.start()
    report = fuzzer.report
    measure_usage = partial(_measure, fuzzer, progress)
    try:
        measure_usage("start")
        if settle_seconds:
            # Metrics of each kind of request and room for the largest responses belong to a server in use.
            fuzzer.send(enumerate(warm_up(fuzzer.catalog)), connections=1)
            fuzzer.clean_up()
            measure_usage("each kind used once")
            for start in range(numbers.stop, numbers.stop + warm_up_batches * batch, batch):
                fuzzer.send(fuzzer.requests(seed, range(start, start + batch)))
                fuzzer.clean_up()
            time.sleep(settle_seconds)
            measure_usage(f"initial, after {warm_up_batches * batch} requests")
        for start in range(0, max(1, len(numbers)), batch):
            generated = fuzzer.requests(seed, numbers[start : start + batch])
            fuzzer.send(itertools.chain(enumerate(replay) if not start else (), generated))
            text = fuzzer.usage().text()
            ends = stopped() or start + batch >= len(numbers)
            if ends:
                measure_usage("end")
            fuzzer.clean_up()
            progress(f"{report.requests} requests, {report.failed} failed, {text}; clean: {fuzzer.usage().text()}")
            if ends:
                break
        if settle_seconds:
            time.sleep(settle_seconds)
            measure_usage("after cleanup")
    finally:
        fuzzer.stop()
    return report


def _measure(fuzzer: Fuzzer, progress: Callable[[str], None], name: str) -> None:
    usage = fuzzer.report.usage[name] = fuzzer.usage(completely=True)
    progress(f"{name}: {usage.text()}")
