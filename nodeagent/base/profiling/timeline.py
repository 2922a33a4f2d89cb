"""Timeline of the stacks of all threads, in the file format of speedscope."""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from collections.abc import Mapping, Sequence

from nodeagent.base.profiling.encoding import Frame, Stack, stack_of

PERIOD_SECONDS = 0.01
SCHEMA = "https://www.speedscope.app/file-format-schema.json"

Sample = tuple[float, Mapping[int, Stack]]
"""Seconds since the start, and the stack of each thread by its identifier."""


def sample(seconds: float, stop: threading.Event) -> list[Sample]:
    """Sample all threads but the caller's every 10 ms until *stop*, for at most *seconds*; blocks."""
    started_at, me = time.monotonic(), threading.get_ident()
    recorded: list[Sample] = []
    interned: dict[Stack, Stack] = {}  # Most stacks recur.
    while (now := time.monotonic() - started_at) < seconds:
        frames = sys._current_frames()
        stacks = {ident: stack_of(frame) for ident, frame in frames.items() if ident != me}
        del frames  # Frames keep the local variables of their functions alive.
        recorded.append((now, {ident: interned.setdefault(stack, stack) for ident, stack in stacks.items()}))
        if stop.wait(PERIOD_SECONDS):
            break
    recorded.append((time.monotonic() - started_at, {}))
    return recorded


def encode_trace(recorded: Sequence[Sample], names: Mapping[int, str], title: str) -> bytes:
    """Return the file: one profile per thread with its samples in order of time; the last sample marks the end."""
    frames: dict[Frame, int] = {}
    samples: dict[int, tuple[list[list[int]], list[float]]] = {}
    ends: dict[int, float] = {}
    for (at, stacks), (until, _) in itertools.pairwise(recorded):
        for ident, stack in stacks.items():
            shown, weights = samples.setdefault(ident, ([], []))
            if at > ends.get(ident, 0.0):  # The thread did not exist all the time.
                shown.append([])
                weights.append(at - ends.get(ident, 0.0))
            shown.append([frames.setdefault(frame, len(frames)) for frame in reversed(stack)])
            weights.append(until - at)
            ends[ident] = until
    profiles = [
        {
            "type": "sampled",
            "name": names.get(ident, f"thread {ident}"),
            "unit": "seconds",
            "startValue": 0,
            "endValue": sum(weights),
            "samples": shown,
            "weights": weights,
        }
        for ident, (shown, weights) in sorted(samples.items(), key=lambda item: names.get(item[0], "") != "MainThread")
    ]
    listed = [{"name": frame.function, "file": frame.file, "line": frame.line} for frame in frames]
    document = {"$schema": SCHEMA, "name": title, "exporter": "nodeagent", "activeProfileIndex": 0}
    return json.dumps({**document, "shared": {"frames": listed}, "profiles": profiles}).encode()
