"""What is counted about certificates."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from nodeagent.base.metrics import Counter, Family, Gauge, Histogram


class Remaining(Gauge):
    """Seconds until a certificate ends, worked out when it is asked for."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name, text)
        self.seconds: Callable[[], float] = lambda: inf

    def fill(self, family: Family) -> None:
        family.add(self.seconds())


CLIENT_TTL = Remaining(
    "certificate_manager_client_ttl_seconds",
    "Seconds until the client certificate ends, negative afterwards; infinite without one.",
)
SERVER_TTL = Remaining(
    "certificate_manager_server_ttl_seconds",
    "Seconds until the requested serving certificate ends, negative afterwards; infinite without one.",
)
CLIENT_FAILURES = Counter(
    "certificate_manager_client_expiration_renew_errors", "Attempts to get a client certificate that failed."
)
SERVER_FAILURES = Counter("server_expiration_renew_errors", "Attempts to get a serving certificate that failed.")
SERVER_ROTATIONS = Histogram(
    "certificate_manager_server_rotation_seconds",
    "How long serving certificates had been in force when the next one replaced them.",
    bounds=tuple(seconds for hours in (1, 4, 24, 7 * 24, 30 * 24, 90 * 24, 365 * 24) for seconds in (hours * 3600.0,)),
)
