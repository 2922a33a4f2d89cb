"""Requests of simulated clients, whose responses are verified against the history of the store."""

from __future__ import annotations

import asyncio
from typing import Any

from apiserver_stub.simulation.client import MERGE, Client, Lost, Response
from apiserver_stub.simulation.collections import CONFIG_MAPS, NAMESPACES
from apiserver_stub.simulation.history import Entry, StoreHistory
from apiserver_stub.simulation.invariants import Invariants
from apiserver_stub.simulation.reflector import COLOR, verify_list
from apiserver_stub.simulation.violations import Violations
from apiserver_stub.simulation.webhooks import BROAD
from nodeagent.base.simulation.trace import Trace

_BROAD = f'webhook "{BROAD}.'
_UNCERTAIN = {429, 503, 504}
_COLORS = ("red", "blue", None)
FINALIZER = "simulated.test/hold"
LABEL = "simulated.test/plain"


class Requests:
    """Functions of clients. Each verifies the response."""

    def __init__(self, client: Client, invariants: Invariants, violations: Violations, trace: Trace) -> None:
        self._client, self._invariants, self._violations, self._trace = client, invariants, violations, trace
        self._history: StoreHistory = invariants.history

    async def send(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Response:
        """Send a request and record its result.

        :raises Lost: the result is unknown.
        """
        try:
            response = await self._client.request(method, path, body, content_type)
        except Lost as lost:
            self._trace.add("lost", f"{method} {path} {lost}")
            raise
        self._trace.add("response", f"{method} {path} {response.code} {response.version}")
        self._violations.checked += 1
        if response.code == 500 and "panic" in str(response.content.get("message")):
            self._violations.report(f"{method} {path} failed with {response.content}")
        if response.code >= 400 and _BROAD in str(response.content.get("message")):
            raise Lost("rejected by a webhook")
        return response

    # --- config maps ------------------------------------------------------------------------------------------

    async def create_map(
        self, namespace: str, name: str, value: int, size: int, *, finalizer: bool, dry_run: bool
    ) -> None:
        """Create a config map."""
        metadata: dict[str, Any] = {"name": name, "labels": {LABEL: "true"}}
        if finalizer:
            metadata["finalizers"] = [FINALIZER]
        await self._create(namespace, {"metadata": metadata, "data": {"value": str(value) * size}}, dry_run=dry_run)

    async def create_dependent(self, namespace: str, name: str, number: int, *, block: bool) -> None:
        """Create a config map that another one owns."""
        owner = await self.send("GET", _path(namespace, name))
        if owner.code != 200:
            return
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "blockOwnerDeletion": block}
        reference["uid"] = owner.content["metadata"]["uid"]
        metadata = {"name": f"dependent-{number}", "ownerReferences": [reference]}
        await self._create(namespace, {"metadata": metadata}, dry_run=False)

    async def _create(self, namespace: str, body: dict[str, Any], *, dry_run: bool) -> None:
        started, name = self._history.revision, body["metadata"]["name"]
        key = f"{namespace}/{name}"
        terminating = self._terminating(namespace)
        response = await self.send("POST", _path(namespace) + ("?dryRun=All" if dry_run else ""), body)
        states = self._states(key, started)
        if response.code == 201 and dry_run:
            if all(states):
                self._violations.report(f"create of {key} succeeded as a dry run, although it existed")
        elif response.code == 201:
            entry = self._written(response, key)
            if entry is not None and entry.type != "ADDED":
                self._violations.report(f"create of {key} returned {response.version}, which is {entry.type}")
            if terminating:
                self._violations.report(f"create of {key} succeeded in a namespace that is being deleted")
        elif response.code == 409 and not any(states):
            if response.content.get("reason") == "AlreadyExists":
                self._violations.report(f"create of {key} failed with AlreadyExists, but it did not exist")
        elif response.code not in {403, 404, 409, *_UNCERTAIN, 500}:
            self._violations.report(f"create of {key} failed with {response.code}: {response.content}")

    async def update_map(self, namespace: str, name: str, value: int, *, versioned: bool) -> None:
        """Replace a config map that was read before."""
        read = await self.read_map(namespace, name)
        if read is None:
            return
        version = read["metadata"]["resourceVersion"]
        if not versioned:
            del read["metadata"]["resourceVersion"]
        read["data"] = {"value": str(value)}
        started, key = self._history.revision, f"{namespace}/{name}"
        response = await self.send("PUT", _path(namespace, name), read)
        if response.code == 200:
            entry = self._written(response, key)
            if entry is None:
                return
            if response.content.get("data") != read["data"]:
                self._violations.report(f"update of {key} returned other data")
            before = (entry.previous() or {}).get("metadata", {}).get("resourceVersion")
            if versioned and version not in (before, str(entry.revision)):
                self._violations.report(f"update of {key} with version {version} replaced version {before}")
        elif response.code == 409 and versioned:
            if all(state is not None and str(state.revision) == version for state in self._states(key, started)):
                self._violations.report(f"update of {key} with the current version {version} is a conflict")
        else:
            self._missing("update", key, response, started)

    async def contend(self, namespace: str, name: str, count: int) -> None:
        """Replace a config map several times at the same time, each with the version that was read before."""
        read = await self.read_map(namespace, name)
        if read is None:
            return
        bodies = [{**read, "data": {"value": f"contender {number}"}} for number in range(count)]
        responses = await asyncio.gather(
            *(self.send("PUT", _path(namespace, name), body) for body in bodies), return_exceptions=True
        )
        succeeded = {each.version for each in responses if isinstance(each, Response) and each.code == 200}
        succeeded.discard(int(read["metadata"]["resourceVersion"]))  # The object already had this content.
        if len(succeeded) > 1:
            self._violations.report(f"updates of {namespace}/{name} with one version succeeded as {sorted(succeeded)}")

    async def patch_map(self, namespace: str, name: str, value: int, *, versioned: bool) -> None:
        """Change a config map with a merge patch."""
        body = {"metadata": {"labels": {COLOR: _COLORS[value % 3]}}, "data": {"patched": str(value)}}
        started, key = self._history.revision, f"{namespace}/{name}"
        response = await self.send("PATCH", _path(namespace, name), body, MERGE)
        if response.code == 200:
            self._written(response, key)
            if response.content.get("data", {}).get("patched") != str(value):
                self._violations.report(f"patch of {key} returned other data")
        else:
            self._missing("patch", key, response, started)

    async def apply_map(self, namespace: str, name: str, value: int, manager: int, *, force: bool) -> None:
        """Change or create a config map by server-side apply."""
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {LABEL: "true"}},
            "data": {f"manager-{manager % 2}": str(value)},
        }
        key, query = f"{namespace}/{name}", f"?fieldManager=manager-{manager}" + ("&force=true" if force else "")
        terminating = self._terminating(namespace)
        response = await self.send("PATCH", _path(namespace, name) + query, body, "application/apply-patch+yaml")
        if response.code in (200, 201):
            entry = self._written(response, key)
            if response.content.get("data", {}).get(f"manager-{manager % 2}") != str(value):
                self._violations.report(f"apply of {key} returned other data")
            if response.code == 201 and (terminating or (entry is not None and entry.type != "ADDED")):
                self._violations.report(f"apply of {key} created {response.version} unexpectedly")
        elif response.code == 409 and force and "exceeded" not in str(response.content):
            if response.content.get("details", {}).get("causes"):
                self._violations.report(f"apply of {key} with force is a conflict: {response.content}")
        elif response.code not in {403, 404, 409, *_UNCERTAIN, 500}:
            self._violations.report(f"apply of {key} failed with {response.code}: {response.content}")

    async def remove_finalizer(self, namespace: str, name: str) -> None:
        """Remove the finalizers of a config map."""
        body = {"metadata": {"finalizers": None}}
        started, key = self._history.revision, f"{namespace}/{name}"
        self._invariants.request_deletion(key)
        response = await self.send("PATCH", _path(namespace, name), body, MERGE)
        if response.code != 200:
            self._missing("patch", key, response, started)

    async def read_map(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Read a config map; return ``None`` if it does not exist."""
        started, key = self._history.revision, f"{namespace}/{name}"
        response = await self.send("GET", _path(namespace, name))
        if response.code != 200:
            self._missing("read", key, response, started)
            return None
        found: dict[str, Any] = response.content
        if not any(state is not None and state.revision == response.version for state in self._states(key, started)):
            self._violations.report(f"read of {key} returned {response.version}, which was not the current version")
        return found

    async def delete_map(self, namespace: str, name: str, precondition: str, policy: str) -> None:
        """Delete a config map."""
        body: dict[str, Any] = {}
        if policy:
            body["propagationPolicy"] = policy
        if precondition:
            read = await self.read_map(namespace, name)
            if read is None:
                return
            metadata = read["metadata"]
            body["preconditions"] = {
                "uid": {"uid": metadata["uid"]},
                "version": {"resourceVersion": metadata["resourceVersion"]},
                "wrong": {"uid": "00000000-0000-4000-8000-000000000000"},
            }[precondition]
        started, key = self._history.revision, f"{namespace}/{name}"
        if precondition != "wrong":
            self._invariants.request_deletion(key)
        response = await self.send("DELETE", _path(namespace, name), body)
        states = self._states(key, started)
        if response.code == 200:
            if precondition == "wrong":
                self._violations.report(f"delete of {key} with the UID of another object succeeded")
            if not any(state is None or "deletionTimestamp" in state.object()["metadata"] for state in states):
                self._violations.report(f"delete of {key} succeeded, but it exists unchanged")
        elif response.code == 409:
            if not precondition:
                self._violations.report(f"delete of {key} without preconditions is a conflict: {response.content}")
        else:
            self._missing("delete", key, response, started)

    async def delete_maps(self, namespace: str, limit: int, pause: float) -> None:
        """Delete all config maps of a namespace that have the label."""
        if namespace:
            self._invariants.request_deletion(namespace + "/")
            await self.send("DELETE", _path(namespace) + f"?labelSelector={LABEL}%3Dtrue")

    async def list_maps(self, namespace: str, limit: int, pause: float) -> None:
        """List config maps page by page, and verify that the pages are one snapshot."""
        path = _path(namespace) if namespace else "/api/v1/configmaps"
        prefix = f"{namespace}/" if namespace else ""
        started, token, items, revisions = self._history.revision, "", [], []
        while True:
            query = f"?limit={limit}" + (f"&continue={token}" if token else "") if limit else ""
            response = await self.send("GET", path + query)
            if response.code == 410 and token:
                return
            if response.code != 200:
                self._missing("list", path, response, started)
                return
            content = response.content
            items += content["items"]
            revisions.append(response.version)
            if response.version != revisions[0]:
                self._violations.report(f"pages of {path} have the versions {revisions}")
            if not (token := content["metadata"].get("continue", "")):
                break
            await asyncio.sleep(pause)
        if not self._history.complete_after(revisions[0]):
            return
        whole = {"metadata": {"resourceVersion": str(revisions[0])}, "items": items}
        verify_list(self._history, self._violations, path, CONFIG_MAPS, prefix, whole, started)

    def keys(self, collection: str) -> list[str]:
        """Return the keys of a collection."""
        return list(self._history.current.get(collection, {}))

    # --- verification -----------------------------------------------------------------------------------------

    def _written(self, response: Response, key: str) -> Entry | None:
        """Return the durable change of a successful write; report a violation if there is none."""
        metadata = response.content["metadata"]
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            return None  # It removed the last finalizer: the response is the request with the version before.
        entry = self._history.at(CONFIG_MAPS, response.version)
        if entry is None and not self._history.complete_after(response.version):
            return None
        if entry is None or entry.key != key:
            self._violations.report(f"write to {key} returned the version {response.version}, which is not durable")
            return None
        if entry.object() != response.content:
            self._violations.report(
                f"write to {key} returned other content than was written at {response.version}: "
                f"{response.content} instead of {entry.object()}"
            )
        return entry

    def _states(self, key: str, started: int) -> list[Entry | None]:
        return self._history.versions(CONFIG_MAPS, key, started, self._history.revision)

    def _missing(self, verb: str, key: str, response: Response, started: int) -> None:
        """Verify an error response."""
        if response.code in _UNCERTAIN or response.code == 500:
            return
        if response.code == 404:
            if not key.startswith("/") and all(self._states(key, started)):
                self._violations.report(f"{verb} of {key} failed with 404, but it existed")
        elif not (response.code == 409 and verb == "update" and not all(self._states(key, started))):
            self._violations.report(f"{verb} of {key} failed with {response.code}: {response.content}")

    def _terminating(self, namespace: str) -> bool:
        state = self._history.current.get(NAMESPACES, {}).get(namespace)
        return state is not None and "deletionTimestamp" in state.object()["metadata"]


def _path(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps" + (f"/{name}" if name else "")
