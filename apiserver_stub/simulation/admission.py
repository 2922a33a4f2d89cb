"""Invariants of admission webhooks, verified at each write of a config map that they review."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from apiserver_stub.simulation.collections import CONFIG_MAPS, SERVICES
from apiserver_stub.simulation.history import Entry, StoreHistory
from apiserver_stub.simulation.violations import Violations
from apiserver_stub.simulation.webhooks import BROAD, MUTATING, NAMES, NONCE, Review, WebhookServer
from nodeagent.base.structs import Struct

REVIEWED = "simulated.test/reviewed"
"""Label of the config maps that webhooks review."""
INVALID = "invalid"
"""Name of a match condition that cannot be evaluated."""
_COLLECTIONS = {
    webhook: "admissionregistration.k8s.io/"
    + ("mutatingwebhookconfigurations" if webhook in MUTATING else "validatingwebhookconfigurations")
    for webhook in (*NAMES, BROAD)
}
_SAFE_TIMEOUT_SECONDS = 10
"""A webhook that responds always does so within this timeout, unless the network is slow."""
_REQUEST_SECONDS = 600.0
"""Time within which a request is executed; a write to a slow disk takes minutes."""


def label(webhook: str) -> str:
    """Return the label of the config maps that a webhook reviews."""
    return f"simulated.test/{webhook}"


class ReviewedWrite(Struct, frozen=True):
    """A write request of a client.

    :ivar calm: value of :meth:`Server.calm` at its start.
    """

    nonce: str
    dry_run: bool
    revision: int
    started_at: float
    calm: object


class Reviewed:
    """Observer of the config maps that webhooks review.

    :param now: returns the time in seconds.
    :param calm: returns a value that is the same at two times if there was no fault between them; ``None`` during one.
    """

    def __init__(
        self,
        history: StoreHistory,
        violations: Violations,
        server: WebhookServer,
        now: Callable[[], float],
        calm: Callable[[], object],
    ) -> None:
        self._history, self._violations, self._server = history, violations, server
        self._now, self._calm = now, calm
        self._writes: dict[str, ReviewedWrite] = {}
        self._since: dict[str, float] = {}
        """Time of the last change of each configuration."""

    def begin(self, nonce: str, *, dry_run: bool) -> ReviewedWrite:
        """Record a request that writes *nonce*."""
        write = ReviewedWrite(nonce, dry_run, self._history.observed(), self._now(), self._calm())
        self._writes[nonce] = write
        return write

    def forget(self) -> None:
        """Drop the requests and reviews of the past."""
        self._writes.clear()
        self._server.reviews.clear()

    def reviews(self, write: ReviewedWrite, webhook: str) -> list[Review]:
        """Return the reviews of a write by a webhook."""
        return [each for each in self._server.reviews.get(write.nonce, ()) if each.webhook == webhook]

    def ever_invalid(self, write: ReviewedWrite, webhook: str) -> bool:
        """Return whether a condition of a webhook was invalid at some time since the start of a write."""
        found = self._history.versions(_COLLECTIONS[webhook], webhook, write.revision, self._history.revision)
        conditions = [_spec(each).get("matchConditions") or () for each in found if each is not None]
        return any(condition["name"] == INVALID for each in conditions for condition in each)

    def ever_fails(self, write: ReviewedWrite, webhook: str) -> bool:
        """Return whether a webhook had the failure policy ``Fail`` at some time since the start of a write."""
        found = self._history.versions(_COLLECTIONS[webhook], webhook, write.revision, self._history.revision)
        return any(each is not None and _spec(each)["failurePolicy"] == "Fail" for each in found)

    def works(self, write: ReviewedWrite, webhook: str) -> bool:
        """Return whether a webhook responds in time to all reviews of a write that has just ended."""
        entry = self._current(write, webhook)
        if entry is None or write.calm is None or write.calm != self._calm():
            return False
        spec = _spec(entry)
        if "service" in spec["clientConfig"]:
            service = self._history.current.get(SERVICES, {}).get("default/webhooks")
            if service is None or service.revision > write.revision:
                return False
        return spec["timeoutSeconds"] >= _SAFE_TIMEOUT_SECONDS and self._server.healthy_since(webhook, write.started_at)

    def longest(self, write: ReviewedWrite) -> float:
        """Return the longest time for which the webhooks may delay a write."""
        total = 0.0
        for webhook in (*NAMES, BROAD):
            found = self._history.versions(_COLLECTIONS[webhook], webhook, write.revision, self._history.revision)
            seconds = max((_spec(each)["timeoutSeconds"] for each in found if each is not None), default=0)
            total += seconds * (2 if webhook in MUTATING else 1)
        return total

    def observe(self, collection: str, entry: Entry) -> None:
        """Verify one change."""
        if collection in _COLLECTIONS.values():
            self._since[entry.key] = self._now()
        if collection != CONFIG_MAPS or REVIEWED not in (entry.object()["metadata"].get("labels") or {}):
            return
        self._violations.checked += 1
        found, before = entry.object(), entry.previous() or {}
        if entry.type == "DELETED":
            self._verify_deleted(entry, before)
            return
        nonce = found.get("data", {}).get(NONCE)
        write = self._writes.get(nonce)
        if write is None or before.get("data", {}).get(NONCE) == nonce:
            return
        text = f"{CONFIG_MAPS} {entry.key} at {entry.revision}"
        if write.dry_run:
            self._violations.report(f"{text} was written by a dry run")
        self.verify_written(text, write, found, before)

    def verify_written(
        self, text: str, write: ReviewedWrite, found: Mapping[str, Any], before: Mapping[str, Any] | None = None
    ) -> None:
        """Verify an object that is written or would be.

        :param text: description of the write.
        :param before: the object before the write; empty if there is none, ``None`` if it is not known.
        """
        data, patched = found["data"], []
        for webhook in NAMES:
            reviews = self.reviews(write, webhook)
            outcomes = {each.outcome for each in reviews}
            if "denied" in outcomes:
                self._violations.report(f"{text} was written, although {webhook} denied it")
            entry = self._current(write, webhook)
            if entry is None or not matches(_spec(entry), webhook, found, before or {}):
                continue
            required = _spec(entry)["failurePolicy"] == "Fail" or self.works(write, webhook)
            if required and "allowed" not in outcomes:
                self._violations.report(f"{text} was written without a review by {webhook}")
            if webhook in MUTATING and (required or outcomes == {"allowed"}):
                patched.append(webhook)
                if data.get(webhook) != data[NONCE]:
                    self._violations.report(f"{text} was written without the patch of {webhook}")
        self._verify_reinvocation(text, write, patched, data)

    def _verify_reinvocation(
        self, text: str, write: ReviewedWrite, patched: list[str], data: Mapping[str, str]
    ) -> None:
        """Verify that a webhook that is called again has seen the changes of those after it."""
        for webhook in patched:
            entry = self._current(write, webhook)
            if entry is None or _spec(entry).get("reinvocationPolicy") != "IfNeeded":
                continue
            later = [each for each in patched if each > webhook]
            if missing := [each for each in later if each not in data.get(f"{webhook}.after", "").split()]:
                self._violations.report(f"{text} was written without another call of {webhook} after {missing[0]}")

    def _verify_deleted(self, entry: Entry, before: Mapping[str, Any]) -> None:
        metadata = before["metadata"]
        if "deletionTimestamp" in metadata:
            return  # Admitted at an earlier time.
        reviews = self._server.reviews.get(metadata["uid"], [])
        for webhook in NAMES:
            configuration = self._history.current.get(_COLLECTIONS[webhook], {}).get(webhook)
            if configuration is None or self._since[webhook] + _REQUEST_SECONDS > self._now():
                continue
            spec = _spec(configuration)
            if "DELETE" not in spec["rules"][0]["operations"] or spec["failurePolicy"] != "Fail":
                continue
            allowed = any(each.webhook == webhook and each.outcome == "allowed" for each in reviews)
            if matches(spec, webhook, {}, before) and not allowed:
                text = f"{CONFIG_MAPS} {entry.key} was deleted without a review by {webhook} at {entry.revision}"
                self._violations.report(text)

    def _current(self, write: ReviewedWrite, webhook: str) -> Entry | None:
        """Return the configuration of a webhook if it has not changed since the start of a write."""
        entry = self._history.current.get(_COLLECTIONS[webhook], {}).get(webhook)
        return entry if entry is not None and entry.revision <= write.revision else None


def matches(spec: Mapping[str, Any], webhook: str, new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Return whether a webhook reviews a request.

    :param new: the object after the request, empty for a deletion.
    :param old: the object before it, empty for a creation.
    """
    labels = [(each.get("metadata", {}).get("labels") or {}) for each in (new, old)]
    if not any(REVIEWED in each for each in labels):
        return False
    for condition in spec.get("matchConditions") or ():
        if condition["name"] == INVALID:
            return bool(spec["failurePolicy"] == "Fail")  # The request is rejected.
        return label(webhook) in (labels[0] if new else labels[1])
    if label(webhook) in spec["objectSelector"]["matchLabels"]:
        return any({REVIEWED, label(webhook)} <= each.keys() for each in labels)
    return True


def _spec(entry: Entry) -> dict[str, Any]:
    found: dict[str, Any] = entry.object()["webhooks"][0]
    return found
