"""Tests for the trace format: samples of each thread in order of time."""

from __future__ import annotations

import json
import threading

from nodeagent.base.profiling.encoding import Frame
from nodeagent.base.profiling.timeline import encode_trace, sample

OUTER, INNER = Frame("outer", "a.py", 1), Frame("inner", "a.py", 2)


def test_sample_starts_with_the_outermost_frame():
    samples = [(0.0, {1: (INNER, OUTER)}), (0.25, {1: (OUTER,)}), (1.0, {})]

    trace = json.loads(encode_trace(samples, {1: "MainThread"}, "title"))

    (profile,) = trace["profiles"]
    names = [frame["name"] for frame in trace["shared"]["frames"]]
    assert [[names[number] for number in sample] for sample in profile["samples"]] == [["outer", "inner"], ["outer"]]
    assert profile["weights"] == [0.25, 0.75]
    assert (profile["startValue"], profile["endValue"]) == (0, 1.0)


def test_late_thread_has_empty_samples_and_main_thread_is_first():
    late = (INNER,)
    samples = [
        (0.0, {2: (OUTER,)}),
        (0.5, {1: late, 2: (OUTER,)}),
        (0.75, {2: (OUTER,)}),
        (0.875, {1: late}),
        (1.0, {}),
    ]

    trace = json.loads(encode_trace(samples, {2: "MainThread"}, "title"))

    first, other = trace["profiles"]
    assert (first["name"], other["name"]) == ("MainThread", "thread 1")
    assert other["weights"] == [0.5, 0.25, 0.125, 0.125]
    assert [len(sample) for sample in other["samples"]] == [0, 1, 0, 1]
    assert first["endValue"] == 0.875


def test_sampling_stops_on_request_and_excludes_its_thread():
    stop = threading.Event()
    stop.set()

    first, last = sample(60, stop)

    assert threading.get_ident() not in first[1]
    assert last[1] == {}
