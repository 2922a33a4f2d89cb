"""Tests for the subprotocols that a WebSocket client offers."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import make_mocked_request

from nodeagent_plugins.routes_exec.websockets import requests_stream_close, tunneled_protocols

UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket"}


def request(protocols, headers=None):
    return make_mocked_request(
        "GET", "/portForward/a/b", {**(UPGRADE if headers is None else headers), "Sec-WebSocket-Protocol": protocols}
    )


@pytest.mark.parametrize(
    ("offered", "tunneled"),
    [
        ("SPDY/3.1+portforward.k8s.io", ["portforward.k8s.io"]),
        ("v4.channel.k8s.io, SPDY/3.1+portforward.k8s.io", ["portforward.k8s.io"]),
        ("v4.channel.k8s.io", []),
        ("portforward.k8s.io", []),
        ("SPDY/3.1+portforward", []),
    ],
)
def test_tunneled_protocols_are_those_with_prefix_and_suffix(offered, tunneled):
    assert tunneled_protocols(request(offered)) == tunneled


def test_request_without_upgrade_has_no_tunneled_protocol():
    assert tunneled_protocols(request("SPDY/3.1+portforward.k8s.io", headers={})) == ()


@pytest.mark.parametrize(
    ("offered", "headers", "requested"),
    [
        ("v5.channel.k8s.io", None, True),
        ("v4.channel.k8s.io, V5.channel.k8s.io", None, True),
        ("v4.channel.k8s.io", None, False),
        ("v5.channel.k8s.io", {}, False),
    ],
)
def test_stream_close_is_requested_by_version_5_of_the_channels(offered, headers, requested):
    assert requests_stream_close(request(offered, headers)) is requested
