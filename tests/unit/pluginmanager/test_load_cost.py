"""Tests for the cost of loading plugins."""

import mmap
import time

from nodeagent.pluginmanager.load_cost import LoadCosts


def use_cpu(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_cost_of_a_nested_plugin_is_not_attributed_twice():
    costs, kept = LoadCosts(), []

    with costs.measured("outer"):
        use_cpu(0.01)
        with costs.measured("inner"):
            use_cpu(0.05)
            kept.append(mmap.mmap(-1, 8 << 20))
            kept[-1].write(b"x" * (8 << 20))
    with costs.measured("inner"):
        use_cpu(0.02)

    assert 0 < costs.of("outer").cpu_seconds < costs.of("inner").cpu_seconds
    assert costs.of("inner").cpu_seconds >= 0.07
    assert costs.of("inner").resident_bytes >= 7 << 20
    assert costs.of("outer").resident_bytes < 4 << 20
    assert costs.of("unknown").cpu_seconds == 0
