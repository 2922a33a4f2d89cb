"""Webhooks and the store of a simulated server, for the tests of their invariants and requests."""

from __future__ import annotations

from typing import Any

from apiserver_stub.simulation.admission import REVIEWED, Reviewed
from apiserver_stub.simulation.collections import CONFIG_MAPS, NAMESPACES
from apiserver_stub.simulation.webhooks import MUTATING, NONCE, Review, WebhookServer
from tests.unit.apiserver_stub.simulation.stored import Object, Stored

GROUP = "admissionregistration.k8s.io"
KEY = "ns/reviewed-0"


class Harness:
    """Reviewed config maps.

    :ivar calm: value that changes with each fault; false during one.
    """

    def __init__(self) -> None:
        self.stored = Stored()
        self.calm: object = True
        now: Any = lambda: self.stored.now  # noqa: E731
        self.server = WebhookServer(1, self.stored.trace, now)  # type: ignore[arg-type]
        history, violations = self.stored.invariants.history, self.stored.violations
        self.reviewed = Reviewed(history, violations, self.server, now, lambda: self.calm or None)
        self.stored.invariants.observers.append(self.reviewed.observe)
        self.stored.put(NAMESPACES, "ns")

    def configure(self, webhook: str, policy: str = "Fail", **fields: Any) -> None:
        plural = "mutatingwebhookconfigurations" if webhook in MUTATING else "validatingwebhookconfigurations"
        spec = {
            "failurePolicy": policy,
            "timeoutSeconds": 10,
            "clientConfig": {"url": "https://simulated.test"},
            "rules": [{"operations": ["CREATE", "UPDATE", "DELETE"]}],
            "objectSelector": {"matchLabels": {REVIEWED: "true"}},
            **fields,
        }
        self.stored.put(f"{GROUP}/{plural}", webhook, webhooks=[spec])

    def begin(self, nonce: str = "n1", *, dry_run: bool = False) -> Any:
        return self.reviewed.begin(nonce, dry_run=dry_run)

    def review(self, webhook: str, outcome: str = "allowed", identity: str = "n1") -> None:
        self.server.reviews.setdefault(identity, []).append(Review(webhook, outcome))

    def write(self, nonce: str = "n1", labels: Object | None = None, **data: str) -> str:
        self.stored.put(CONFIG_MAPS, KEY, {"labels": {REVIEWED: "true", **(labels or {})}}, data={NONCE: nonce, **data})
        return self.stored.violation
