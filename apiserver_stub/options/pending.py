"""Options of document 2 that this server knows and does not carry out: setting one is refused, never ignored.

The list can only shrink; an option leaves it together with the behaviour it asks for.
"""

from __future__ import annotations

PENDING = (
    "enable-aggregator-routing",
    "aggregator-reject-forwarding-redirect",
    "proxy-client-cert-file",
    "proxy-client-key-file",
)
