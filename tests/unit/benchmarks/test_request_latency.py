"""Tests for the latency of requests by verb, from the metrics of an API server."""

from __future__ import annotations

import pytest

from benchmarks.request_latency import parse, percentiles

PAGE = """
apiserver_request_duration_seconds_bucket{resource="pods",verb="GET",le="0.1"} 50
apiserver_request_duration_seconds_bucket{resource="pods",verb="GET",le="0.2"} 90
apiserver_request_duration_seconds_bucket{resource="pods",verb="GET",le="+Inf"} 100
apiserver_request_duration_seconds_bucket{resource="nodes",verb="GET",le="0.1"} 0
apiserver_request_duration_seconds_bucket{resource="nodes",verb="GET",le="0.2"} 100
apiserver_request_duration_seconds_bucket{resource="nodes",verb="GET",le="+Inf"} 100
apiserver_request_duration_seconds_bucket{resource="pods",verb="WATCH",le="+Inf"} 7
"""


def test_buckets_of_all_resources_are_added_without_watches() -> None:
    assert parse(PAGE).total() == 200


def test_percentile_is_interpolated_in_its_bucket() -> None:
    found = percentiles(parse(PAGE), 0.5)

    assert found == {"GET": pytest.approx(0.1 + 0.1 * 50 / 140)}


def test_percentile_beyond_the_last_bucket_is_its_limit() -> None:
    assert percentiles(parse(PAGE), 0.99) == {"GET": 0.2}


def test_difference_counts_the_requests_since() -> None:
    assert (parse(PAGE) - parse(PAGE)).total() == 0
