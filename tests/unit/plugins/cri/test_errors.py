"""Tests for the translation of gRPC errors."""

from __future__ import annotations

import grpc
import pytest
from grpc.aio import AioRpcError, Metadata

from nodeagent.errors import NotFound, RuntimeFailure, RuntimeTimeout, RuntimeUnavailable
from nodeagent_plugins.cri.errors import MAX_TEXT, UnimplementedError, translate


def rpc_error(code: grpc.StatusCode, details: str = "because") -> AioRpcError:
    return AioRpcError(code, Metadata(), Metadata(), details=details)


@pytest.mark.parametrize(
    ("code", "kind", "transient"),
    [
        (grpc.StatusCode.UNAVAILABLE, RuntimeUnavailable, True),
        (grpc.StatusCode.DEADLINE_EXCEEDED, RuntimeTimeout, True),
        (grpc.StatusCode.NOT_FOUND, NotFound, False),
        (grpc.StatusCode.UNIMPLEMENTED, UnimplementedError, False),
        (grpc.StatusCode.UNKNOWN, RuntimeFailure, False),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, RuntimeFailure, False),
    ],
)
def test_each_status_code_has_its_error_class(code, kind, transient):
    error = translate(rpc_error(code), "stop container c1")

    assert type(error) is kind
    assert error.transient is transient
    assert str(error) == "stop container c1: because"


def test_deadline_counts_as_unavailable_runtime():
    assert issubclass(RuntimeTimeout, RuntimeUnavailable)


def test_error_without_details_contains_its_status_code():
    assert str(translate(rpc_error(grpc.StatusCode.INTERNAL, ""), "list images")) == "list images: INTERNAL"


def test_long_details_are_truncated():
    assert len(str(translate(rpc_error(grpc.StatusCode.UNKNOWN, "x" * 100_000), ""))) == MAX_TEXT + 2
