"""Tests for the egress selector configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apiserver_stub.egress.dialing import HttpConnectDialer
from apiserver_stub.egress.konnectivity import KonnectivityDialer
from apiserver_stub.egress.selector import DIRECT, EgressError, load, read
from nodeagent.base.identity import Identity


def _document(name: str, protocol: str, **transport: Any) -> Any:
    connection = {"proxyProtocol": protocol, **({"transport": transport} if transport else {})}
    selection = {"name": name, "connection": connection}
    kind = {"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration"}
    return {**kind, "egressSelections": [selection]}


@pytest.mark.row("opt.egress-selector-config-file")
@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"kind": "Other"}, "kind must be EgressSelectorConfiguration"),
        (_document("foo", "Direct"), 'Unsupported value: "foo": supported values: "cluster", "controlplane", "etcd"'),
        (_document("cluster", "Socks"), 'Unsupported value: "Socks"'),
        (_document("cluster", "HTTPConnect"), "transport must be set for HTTPConnect"),
        (_document("cluster", "Direct", tcp={"url": "http://x:1"}), "should be absent for direct connect"),
        (_document("cluster", "GRPC", tcp={"url": "http://x:1"}), "UDS must be set with GRPC"),
        (_document("cluster", "HTTPConnect", tcp={"url": "ftp://x"}), "must be http://HOST:PORT or https://HOST:PORT"),
        (_document("cluster", "HTTPConnect", tcp={"url": "https://x:1"}), "TLSConfig must be present"),
        (_document("cluster", "HTTPConnect", uds={"udsName": "s"}), "must be an absolute path"),
    ],
)
def test_invalid_configuration_is_rejected(document: Any, problem: str) -> None:
    with pytest.raises(EgressError) as error:
        read(document, Identity())

    assert problem in str(error.value)


def test_all_problems_are_reported_and_several_are_in_brackets() -> None:
    document = _document("foo", "Direct")
    unsupported = 'service.connection: Unsupported value: "foo": supported values: "cluster", "controlplane", "etcd"'
    start = "failed to validate egress selector configuration: "
    with pytest.raises(EgressError) as one:
        read(document, Identity())
    document["egressSelections"] += _document("etcd", "Direct")["egressSelections"] * 2
    with pytest.raises(EgressError) as two:
        read(document, Identity())

    assert str(one.value) == start + unsupported
    assert str(two.value) == f'{start}[{unsupported}, egressSelections.name: Duplicate value: "etcd"]'


@pytest.mark.parametrize("name", ["cluster", "controlplane", "etcd"])
def test_egress_is_selected_by_name(name: str) -> None:
    socket = read(_document(name, "HTTPConnect", uds={"udsName": "/run/s"}), Identity())
    assert getattr(socket, name) == HttpConnectDialer(socket_path="/run/s")
    address = read(_document(name, "HTTPConnect", tcp={"url": "http://p:3128"}), Identity())
    assert getattr(address, name) == HttpConnectDialer("p", 3128)
    tunnel = getattr(read(_document(name, "GRPC", uds={"udsName": "/run/k"}), Identity()), name)
    assert isinstance(tunnel, KonnectivityDialer)
    assert tunnel.socket_path == "/run/k"
    assert read(_document(name, "Direct"), Identity()) == DIRECT


def test_missing_file_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(EgressError, match="unable to read egress selector configuration"):
        load(tmp_path / "nope", Identity())
