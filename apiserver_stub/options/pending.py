"""Options of document 2 that this server knows and does not carry out: setting one is refused, never ignored.

The list can only shrink; an option leaves it together with the behaviour it asks for.
"""

from __future__ import annotations

HTTP2_ONLY = ("http2-max-streams-per-connection", "goaway-chance")
"""Options about HTTP/2; the server speaks HTTP/1.1 alone, so there is nothing that they could act upon."""

PENDING = (
    "enable-aggregator-routing",
    "aggregator-reject-forwarding-redirect",
    "proxy-client-cert-file",
    "proxy-client-key-file",
)
