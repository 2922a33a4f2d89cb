"""Certificate metrics."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from nodeagent.base.metrics import Counter, Family, Gauge, Histogram


class Remaining(Gauge):
    """Seconds until a certificate expires, computed at each scrape."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name, text)
        self.seconds: Callable[[], float] = lambda: inf

    def fill(self, family: Family) -> None:
        family.add(self.seconds())


CLIENT_TTL = Remaining(
    "certificate_manager_client_ttl_seconds",
    "Gauge of the TTL (time-to-live) of the Kubelet's client certificate. The value is in seconds until "
    "certificate expiry (negative if already expired). If client certificate is invalid or unused, the "
    "value will be +INF.",
)
SERVER_TTL = Remaining(
    "certificate_manager_server_ttl_seconds",
    "Gauge of the shortest TTL (time-to-live) of the Kubelet's serving certificate. The value is in "
    "seconds until certificate expiry (negative if already expired). If serving certificate is invalid or "
    "unused, the value will be +INF.",
)
CLIENT_FAILURES = Counter(
    "certificate_manager_client_expiration_renew_errors", "Counter of certificate renewal errors."
)
SERVER_FAILURES = Counter("server_expiration_renew_errors", "Counter of certificate renewal errors.")
SERVER_ROTATIONS = Histogram(
    "certificate_manager_server_rotation_seconds",
    "Histogram of the number of seconds the previous certificate lived before being rotated.",
    bounds=(60, 3600, 4 * 3600, *(days * 86400 for days in (1, 7, 30, 90, 180, 360, 1440))),
)
