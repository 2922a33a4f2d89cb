"""Tests for the query parameters of streaming requests."""

from __future__ import annotations

import pytest
from multidict import MultiDict

from nodeagent_plugins.routes_exec.streams import MAX_PORTS, Streams, read_ports, read_streams


def test_terminal_has_no_separate_stderr():
    query = MultiDict({"input": "1", "output": "1", "error": "1", "tty": "1"})

    assert read_streams(query) == Streams(stdin=True, stdout=True, stderr=False, tty=True)


@pytest.mark.parametrize("query", [{}, {"tty": "1"}, {"output": "0"}, {"stdin": "1"}])
def test_at_least_one_stream_is_required(query):
    with pytest.raises(ValueError, match="at least 1 of stdin, stdout, stderr"):
        read_streams(MultiDict(query))


def test_ports_are_repeated_or_listed_for_websockets_only():
    query = MultiDict([("port", "80,443"), ("port", "8080")])

    assert read_ports(query, websocket=True) == [80, 443, 8080]
    assert read_ports(query, websocket=False) == ()


@pytest.mark.parametrize("text", ["", "0", "65536", "x", "-1", "1,,2", "٣", ",".join(["1"] * (MAX_PORTS + 1))])
def test_invalid_port_is_rejected(text):
    with pytest.raises(ValueError):
        read_ports(MultiDict({"port": text}), websocket=True)


def test_limits_of_ports_are_valid():
    ports = [1, 65535] * (MAX_PORTS // 2)
    query = MultiDict({"port": ",".join(map(str, ports))})

    assert read_ports(query, websocket=True) == ports
    with pytest.raises(ValueError, match=f"more than {MAX_PORTS} ports"):
        read_ports(MultiDict({"port": ",".join(["1"] * (MAX_PORTS + 1))}), websocket=True)


def test_websocket_requires_a_port():
    with pytest.raises(ValueError, match='query parameter "port" is required'):
        read_ports(MultiDict(), websocket=True)
