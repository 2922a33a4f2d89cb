"""Latency of requests by verb, from the metrics of an API server; kube-apiserver has the same ones."""

from __future__ import annotations

import http.client
import math
import re
import ssl
import urllib.parse
from collections import Counter, defaultdict
from contextlib import closing

from tests.integration.programs import ApiServer

_BUCKET = re.compile(r"apiserver_request_duration_seconds_bucket\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_LONG = ("WATCH", "CONNECT")


class Requests(Counter[tuple[str, float]]):
    """Numbers of requests by verb and upper limit of their bucket in seconds; buckets are cumulative."""

    def __sub__(self, other: Counter[tuple[str, float]]) -> Requests:
        return Requests({key: value - other.get(key, 0) for key, value in self.items()})

    def total(self) -> int:
        """Return the number of requests."""
        return sum(value for (_, limit), value in self.items() if limit == math.inf)


def read_requests(server: ApiServer) -> Requests:
    """Return the requests that *server* has completed since its start, without watches."""
    return parse(_metrics(server))


def parse(text: str) -> Requests:
    """Return the requests in a page of metrics."""
    found: Counter[tuple[str, float]] = Counter()
    for line in text.splitlines():
        if match := _BUCKET.match(line):
            labels = dict(_LABEL.findall(match[1]))
            if labels["verb"] not in _LONG:
                found[labels["verb"], float(labels["le"].replace("+Inf", "inf"))] += int(float(match[2]))
    return Requests(found)


def percentiles(requests: Requests, share: float) -> dict[str, float]:
    """Return the percentile *share* in seconds by verb, interpolated in its bucket as Prometheus does."""
    by_verb: dict[str, dict[float, int]] = defaultdict(dict)
    for (verb, limit), value in requests.items():
        by_verb[verb][limit] = value
    return {verb: _percentile(buckets, share) for verb, buckets in by_verb.items() if buckets[math.inf]}


def _percentile(buckets: dict[float, int], share: float) -> float:
    rank, lower, below = share * buckets[math.inf], 0.0, 0
    for limit, count in sorted(buckets.items()):
        if count >= rank:
            if limit == math.inf:
                return lower
            return lower + (limit - lower) * (rank - below) / (count - below)
        lower, below = limit, count
    return lower


def _metrics(server: ApiServer) -> str:
    url = urllib.parse.urlparse(server.facts["url"])
    context = ssl.create_default_context(cafile=server.facts["caFile"])
    with closing(http.client.HTTPSConnection(url.hostname or "", url.port, context=context, timeout=60)) as connection:
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {server.facts['token']}"})
        return connection.getresponse().read().decode()
