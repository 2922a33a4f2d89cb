"""Tests for errors of calls to a key management service."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from apiserver_stub.storage.encryption.key_service import KmsError
from apiserver_stub.storage.encryption.kms_channel import KmsChannel
from apiserver_stub.storage.encryption.proto import kms_v1_pb2 as pb


class Failed(grpc.RpcError):
    def __init__(self, details: str | None) -> None:
        self._details = details

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str | None:
        return self._details


class Connection:
    """gRPC channel whose calls fail, or respond if *error* is ``None``."""

    def __init__(self, error: grpc.RpcError | None) -> None:
        self._error = error

    def unary_unary(self, path: str, **_: Any) -> Any:
        def call(request: Any, timeout: float) -> Any:
            assert (path, timeout) == ("/v1beta1.KeyManagementService/Version", 3)
            if self._error is not None:
                raise self._error
            return pb.VersionResponse(version="v1beta1")

        return call


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Failed("no socket"), "UNAVAILABLE: no socket"),
        (Failed("x" * 300), f"UNAVAILABLE: {'x' * 200}"),
        (Failed(None), "UNAVAILABLE: "),
        (grpc.RpcError(), "failed"),
        (None, ""),
    ],
)
def test_failed_call_is_described(error: grpc.RpcError | None, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc, "insecure_channel", lambda *_: Connection(error))
    channel = KmsChannel("/run/kms.sock", 3, "v1beta1.KeyManagementService")

    if error is None:
        assert channel.call("Version", pb.VersionRequest(), pb.VersionResponse).version == "v1beta1"
        return
    with pytest.raises(KmsError) as raised:
        channel.call("Version", pb.VersionRequest(), pb.VersionResponse)
    assert str(raised.value) == f"Version of the key management service: {text}"
