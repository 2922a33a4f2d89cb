"""Tests for the listener for clients: address, port and log message."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest

from apiserver_stub.options import parse
from apiserver_stub.server import listening


class RecordedListener:
    """Listener that only records how it is opened."""

    opened: tuple[str, int, bool]
    terms: Any

    def __init__(self, handle: object, context: object, terms: Any) -> None:
        type(self).terms = terms

    def open(self, address: str, port: int, *, share_port: bool) -> int:
        type(self).opened = address, port, share_port
        return port or 40000

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("arguments", "opened", "logged"),
    [
        (["--bind-address=192.0.2.1"], ("192.0.2.1", 6443, False), "192.0.2.1:6443"),
        (["--bind-address=0.0.0.0"], ("", 6443, False), "0.0.0.0:6443"),
        (["--bind-address=::"], ("", 6443, False), "[::]:6443"),
        (["--bind-address=192.0.2.1", "--secure-port=7"], ("192.0.2.1", 7, False), "192.0.2.1:7"),
        (["--bind-address=192.0.2.1", "--free-port=true"], ("192.0.2.1", 0, False), "192.0.2.1:40000"),
        (["--bind-address=192.0.2.1", "--permit-port-sharing=true"], ("192.0.2.1", 6443, True), "192.0.2.1:6443"),
        (["--bind-address=192.0.2.1", "--permit-address-sharing=true"], ("192.0.2.1", 6443, True), "192.0.2.1:6443"),
    ],
)
async def test_address_and_port_are_those_of_the_options(
    arguments: list[str],
    opened: tuple[str, int, bool],
    logged: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(listening, "Listener", RecordedListener)
    pipeline: Any = type("Pipeline", (), {"handle": None})
    context: Any = None
    async with AsyncExitStack() as stack:
        listening.listen(parse(arguments), pipeline, stack, context)

    assert RecordedListener.opened == opened
    assert caplog.messages == [f"Serving securely on {logged}"]


@pytest.mark.parametrize(("disabled", "offered"), [("true", False), ("false", True)])
async def test_http2_has_terms_unless_disabled(disabled: str, offered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "Listener", RecordedListener)
    pipeline: Any = type("Pipeline", (), {"handle": None})
    context: Any = None
    async with AsyncExitStack() as stack:
        listening.listen(parse([f"--disable-http2-serving={disabled}"]), pipeline, stack, context)

    assert (RecordedListener.terms is not None) is offered
