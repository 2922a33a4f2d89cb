"""Metrics of the calls of an external signer."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from apiserver_stub.authn.token_keys import SigningError
from apiserver_stub.telemetry.exposition import Page, counts_of
from nodeagent.base.metrics import Buckets
from nodeagent.base.plugin_rpc import RpcError

_OK, _NOT_GRPC = "OK", "unknown-non-grpc"
_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_PREFIX = "apiserver_externaljwt"


class SignerMetrics:
    """Outcomes of signing and of fetching keys, and the durations of calls.

    :param now: clock in seconds since the epoch.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._signed: Counter[str] = Counter()
        self._fetched: Counter[str] = Counter()
        self._fetched_at: float | None = None
        self._data_at: float | None = None
        self._seconds: dict[tuple[str, str], Buckets] = {}

    def count_call(self, method: str, seconds: float, error: RpcError | None) -> None:
        """Record a call of *method*, a path, that took *seconds*."""
        labels = (method, _OK if error is None else error.code)
        if (found := self._seconds.get(labels)) is None:
            found = self._seconds[labels] = Buckets(_SECONDS)
        found.observe(seconds)

    def count_signing(self, error: SigningError | None) -> None:
        """Record an attempt to sign a token."""
        self._signed[_code_of(error)] += 1

    def count_fetch(self, error: SigningError | None) -> None:
        """Record an attempt to fetch the keys."""
        self._fetched[_code_of(error)] += 1
        if error is None:
            self._fetched_at = self._now()

    def set_data_time(self, seconds: float) -> None:
        """Set the time of the keys that the signer reported, in seconds since the epoch."""
        self._data_at = seconds

    def show_on(self, page: Page) -> None:
        """Add the metrics to *page*."""
        for name, text, at in (
            (
                "fetch_keys_success_timestamp",
                "Time of the last successful request for keys, in seconds since the epoch",
                self._fetched_at,
            ),
            (
                "fetch_keys_data_timestamp",
                "Time of the keys in the last response of the signer, in seconds since the epoch",
                self._data_at,
            ),
        ):
            page.gauge(f"{_PREFIX}_{name}", text, (), [] if at is None else [((), at)])
        for name, text, counts in (
            ("fetch_keys_request_total", "Number of requests for keys by status code", self._fetched),
            ("sign_request_total", "Number of requests to sign a token by status code", self._signed),
        ):
            page.counter(f"{_PREFIX}_{name}", text, ("code",), counts_of(counts))
        page.histogram(
            f"{_PREFIX}_request_duration_seconds",
            "Durations of calls of the signer by method and status code",
            ("method", "code"),
            self._seconds.items(),
        )


def _code_of(error: SigningError | None) -> str:
    """Return the status code of the call whose failure caused *error*."""
    if error is None:
        return _OK
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, RpcError):
        cause = cause.__cause__
    return _NOT_GRPC if cause is None else cause.code
