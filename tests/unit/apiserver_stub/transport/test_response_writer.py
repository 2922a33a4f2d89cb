"""Tests for response headers, warnings and compression."""

from __future__ import annotations

import gzip

import pytest

from apiserver_stub.transport.rendered import Rendered
from apiserver_stub.transport.response_writer import audit_id, send, truncated_warnings, warning

from .fake_http import FakeHttpRequest

LONG = b"x" * 200_000


async def test_response_has_the_common_headers() -> None:
    http = FakeHttpRequest(headers={"Audit-ID": "one"})
    http.response_headers = {"X-Extra": "a"}

    await send(
        http, Rendered(201, "text/plain", [b"a", b"b"], {"cache-control": "no-store"}), ["careful"], compress=False
    )

    assert (http.status, http.sent, http.completed) == (201, b"ab", True)
    assert dict(http.sent_headers) == {
        "Audit-Id": "one",
        "Content-Type": "text/plain",
        "X-Extra": "a",
        "cache-control": "no-store",
        "Warning": '299 - "careful"',
    }


@pytest.mark.parametrize(
    ("accepted", "compress", "is_compressed"), [("gzip", True, True), ("", True, False), ("gzip", False, False)]
)
async def test_long_response_is_compressed_if_accepted(accepted: str, compress: bool, is_compressed: bool) -> None:
    http = FakeHttpRequest(headers={"Accept-Encoding": accepted})

    await send(http, Rendered(200, "text/plain", [LONG, LONG]), [], compress=compress)

    assert ("Content-Encoding" in http.sent_headers) is is_compressed
    assert (gzip.decompress(http.sent) if is_compressed else http.sent) == LONG + LONG


@pytest.mark.parametrize("requested", ["", "a\nb", "é"])
def test_unusable_audit_id_is_replaced_once(requested: str) -> None:
    http = FakeHttpRequest(headers={"Audit-ID": requested})

    assert audit_id(http) == audit_id(http) != requested


def test_warnings_with_control_characters_are_dropped() -> None:
    assert truncated_warnings(["a\nb", "", 'é "c"', "a\xa0b", "c"]) == ['é "c"', "a\xa0b", "c"]
    assert warning('a "b" \\') == '299 - "a \\"b\\" \\\\"'
