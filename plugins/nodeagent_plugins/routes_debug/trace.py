"""What every thread did one moment after the other, in the file format of speedscope."""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from collections.abc import Mapping, Sequence

from nodeagent_plugins.routes_debug.profile import Frame, Stack, stack_of

PERIOD_SECONDS = 0.01
SCHEMA = "https://www.speedscope.app/file-format-schema.json"

Moment = tuple[float, Mapping[int, Stack]]
"""Seconds since the beginning, and the stack of each thread by its number."""


def watch(seconds: float, stop: threading.Event) -> list[Moment]:
    """Look at all threads but the caller's every 10 ms until *stop*, at most *seconds* long; blocks."""
    begin, me = time.monotonic(), threading.get_ident()
    moments: list[Moment] = []
    known: dict[Stack, Stack] = {}  # most stacks are seen again and again
    while (now := time.monotonic() - begin) < seconds:
        frames = sys._current_frames()
        stacks = {ident: stack_of(frame) for ident, frame in frames.items() if ident != me}
        del frames  # they would hold what their functions hold
        moments.append((now, {ident: known.setdefault(stack, stack) for ident, stack in stacks.items()}))
        if stop.wait(PERIOD_SECONDS):
            break
    moments.append((time.monotonic() - begin, {}))
    return moments


def encode_trace(moments: Sequence[Moment], names: Mapping[int, str], title: str) -> bytes:
    """Return the file: a profile for each thread, its samples in the order of time; the last moment is the end."""
    frames: dict[Frame, int] = {}
    samples: dict[int, tuple[list[list[int]], list[float]]] = {}
    ends: dict[int, float] = {}
    for (at, stacks), (until, _) in itertools.pairwise(moments):
        for ident, stack in stacks.items():
            shown, weights = samples.setdefault(ident, ([], []))
            if at > ends.get(ident, 0.0):  # the thread did not run all the time
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
