"""Tests for the texts of container events."""

import pytest

from nodeagent.base.release import Release, SelectedRelease
from nodeagent.testing import make_pod


@pytest.mark.parametrize(
    ("minor", "created", "started"),
    [
        (31, "Created container main", "Started container main"),
        (32, "Created container: main", "Started container main"),
        (34, "Created container: main", "Started container main"),
        (35, "Container created", "Container started"),
    ],
)
async def test_container_events_have_the_text_of_the_release(make_bench, minor, created, started):
    bench = make_bench(context={"release": SelectedRelease(Release(1, minor))})

    await bench.sync(make_pod("web"))

    assert bench.notes("Created") == [created]
    assert bench.notes("Started") == [started]
