"""Custom resources with two versions between which a webhook converts: requests of users, and their invariants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apiserver_stub.simulation.client import MERGE, Response
from apiserver_stub.simulation.collections import DEFINITIONS, GADGETS
from apiserver_stub.simulation.history import Entry, StoreHistory
from apiserver_stub.simulation.reflector import verify_list
from apiserver_stub.simulation.requests import Requests
from apiserver_stub.simulation.violations import Violations
from apiserver_stub.simulation.webhooks import CONVERSION, FIELDS, WebhookServer

_GROUP = "simulated.test"
_DEFINITION = f"gadgets.{_GROUP}"
_SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}


class ConversionRequests:
    """Steps with gadgets, whose value is in another field of the spec in each version.

    :param now: returns the time in seconds.
    :param calm: returns a value that is the same at two times if there was no fault between them; ``None`` during one.
    """

    def __init__(
        self,
        requests: Requests,
        history: StoreHistory,
        violations: Violations,
        server: WebhookServer,
        now: Callable[[], float],
        calm: Callable[[], object],
    ) -> None:
        self._requests, self._history, self._violations, self._server = requests, history, violations, server
        self._now, self._calm = now, calm

    def calm(self) -> None:
        """Nothing is to be ended: the server of webhooks is shared."""

    def observe(self, collection: str, entry: Entry) -> None:
        """Verify that a stored object has the field of its version only."""
        if collection == GADGETS:
            self._verify(f"{GADGETS} {entry.key} at {entry.revision}", entry.object())

    async def apply_gadget_kind(self, storage: str) -> None:
        """Create the definition of gadgets, or change the version in which they are stored."""
        versions = [
            {"name": name, "served": True, "storage": name == storage, "schema": {"openAPIV3Schema": _SCHEMA}}
            for name in FIELDS
        ]
        client = {"url": f"https://{CONVERSION}.simulated.test/{CONVERSION}"}
        webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
        spec = {
            "group": _GROUP,
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": versions,
            "conversion": {"strategy": "Webhook", "webhook": webhook},
        }
        path = f"/apis/{DEFINITIONS.replace('/', '/v1/')}"
        body = {"metadata": {"name": _DEFINITION}, "spec": spec}
        if (await self._requests.send("POST", path, body)).code == 409:
            await self._requests.send("PATCH", f"{path}/{_DEFINITION}", {"spec": {"versions": versions}}, MERGE)

    async def write_gadget(self, namespace: str, number: int, version: str, value: int) -> None:
        """Create a gadget, or change its value."""
        name = f"gadget-{number}"
        body = {"apiVersion": f"{_GROUP}/{version}", "kind": "Gadget", "metadata": {"name": name}}
        change = {"spec": {FIELDS[version]: value}}
        state = self._state()
        response = await self._requests.send("POST", _path(namespace, version), {**body, **change})
        if response.code == 409:
            state = self._state()
            response = await self._requests.send("PATCH", f"{_path(namespace, version)}/{name}", change, MERGE)
        self._verify_response(f"write of gadget {namespace}/{name}", version, state, response, value)

    async def read_gadget(self, namespace: str, number: int, version: str) -> None:
        """Read a gadget."""
        name, state, started = f"gadget-{number}", self._state(), self._history.revision
        response = await self._requests.send("GET", f"{_path(namespace, version)}/{name}")
        text = f"read of gadget {namespace}/{name}"
        self._verify_response(text, version, state, response, None)
        if response.code == 200:
            states = self._history.versions(GADGETS, f"{namespace}/{name}", started, self._history.revision)
            values = [
                _value(each.object()) for each in states if each is not None and each.revision == response.version
            ]
            if _value(response.content) not in values:
                self._violations.report(f"{text} returned {response.content}, which was not current")

    async def list_gadgets(self, namespace: str, version: str) -> None:
        """List the gadgets of a namespace."""
        state, started = self._state(), self._history.revision
        path = _path(namespace, version)
        response = await self._requests.send("GET", path)
        self._verify_response(f"list of {path}", version, state, response, None)
        if response.code == 200:
            content = response.content
            verify_list(self._history, self._violations, path, GADGETS, f"{namespace}/", content, started)
            for item in content["items"]:
                self._verify(f"list of {path}", item, version)

    async def delete_gadget(self, namespace: str, number: int, version: str) -> None:
        """Delete a gadget."""
        await self._requests.send("DELETE", f"{_path(namespace, version)}/gadget-{number}")

    def set_conversion(self, behavior: str) -> None:
        """Change the reaction of the webhook to requests."""
        self._server.set_behavior(CONVERSION, behavior)

    def _state(self) -> tuple[float, object]:
        return self._now(), self._calm()

    def _verify_response(
        self, text: str, version: str, state: tuple[float, object], response: Response, value: int | None
    ) -> None:
        started_at, calm = state
        if response.code == 500 and "conversion webhook" in str(response.content.get("message")):
            if calm is not None and calm == self._calm() and self._server.healthy_since(CONVERSION, started_at):
                self._violations.report(f"{text} failed, although the webhook responds: {response.content}")
        elif response.code in (200, 201) and "items" not in response.content:
            self._verify(text, response.content, version)
            if value is not None and _value(response.content) != value:
                self._violations.report(f"{text} returned {response.content} instead of the value {value}")

    def _verify(self, text: str, found: dict[str, Any], version: str = "") -> None:
        self._violations.checked += 1
        actual = str(found.get("apiVersion")).rpartition("/")[2]
        if (version and actual != version) or set(found.get("spec", {})) != {FIELDS.get(actual)}:
            self._violations.report(f"{text} has the version {actual} and the fields {found.get('spec')}")


def _path(namespace: str, version: str) -> str:
    return f"/apis/{_GROUP}/{version}/namespaces/{namespace}/gadgets"


def _value(found: dict[str, Any]) -> Any:
    return next(iter(found["spec"].values()), None)
