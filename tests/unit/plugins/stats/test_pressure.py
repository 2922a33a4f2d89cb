"""Tests for pressure stall information."""

from __future__ import annotations

import pytest

from nodeagent.base.release import Release
from nodeagent.config.features import build_gates
from nodeagent.contracts.stats import IoStats, Pressure, PressureShare
from nodeagent_plugins.routes_stats.summary import summary
from nodeagent_plugins.stats.pressure import parse
from tests.unit.plugins.stats.test_cadvisor import of, scrape
from tests.unit.plugins.stats.test_provider import Bench

TEXT = "some avg10=1.50 avg60=2.00 avg300=3.00 total=4000\nfull avg10=0.50 avg60=0.00 avg300=0.25 total=1000\n"
FOUND = Pressure(PressureShare(4_000_000, 1.5, 2.0, 3.0), PressureShare(1_000_000, 0.5, 0.0, 0.25))
JSON = {
    "full": {"total": 1_000_000, "avg10": 0.5, "avg60": 0.0, "avg300": 0.25},
    "some": {"total": 4_000_000, "avg10": 1.5, "avg60": 2.0, "avg300": 3.0},
}


def pressured(tmp_path, clock, fake, release: str) -> Bench:
    """Return a host with cgroup v2 and pressure files of the node and one container."""
    fake.v2()
    bench = Bench(tmp_path, clock, fake, gates=build_gates({}, Release.parse(release)))
    for name in ("", "/kubepods", "/agent", bench.parent, *(f"{bench.parent}/{i}" for i in (bench.main, bench.side))):
        fake.cgroup_v2(name, cpu=5_000_000, memory=10_000)
    for resource in ("cpu", "memory", "io"):
        fake.put(f"proc/pressure/{resource}", TEXT)
        fake.put(f"sys/fs/cgroup{bench.parent}/{bench.main}/{resource}.pressure", TEXT)
    return bench


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (TEXT.encode(), FOUND),
        (TEXT.splitlines()[0].encode(), Pressure(FOUND.some, PressureShare())),  # CPU before kernel 5.13.
        (None, None),
        (b"", None),
        (b"some avg10=x avg60=0 avg300=0 total=0\n", None),
    ],
)
def test_pressure_file_is_parsed(text: bytes | None, found: Pressure | None) -> None:
    assert parse(text) == found


async def test_summary_has_pressure_from_release_1_34(tmp_path, clock, fake) -> None:
    bench = pressured(tmp_path, clock, fake, "1.34")

    found = summary("node-1", await bench.stats.node(), [await bench.only()])
    node, (pod,) = found["node"], found["pods"]
    containers = {container["name"]: container for container in pod["containers"]}
    main, side = containers["main"], containers["side"]

    assert (node["cpu"]["psi"], node["memory"]["psi"], node["io"]["psi"]) == (JSON, JSON, JSON)
    assert (main["cpu"]["psi"], main["memory"]["psi"], main["io"]["psi"]) == (JSON, JSON, JSON)
    assert main["io"]["time"] == main["cpu"]["time"]
    assert "io" not in side and "psi" not in side["cpu"]


async def test_earlier_releases_report_no_pressure(tmp_path, clock, fake) -> None:
    bench = pressured(tmp_path, clock, fake, "1.33")

    assert (await bench.stats.node()).io is None
    assert (await bench.only()).containers[0].cpu.pressure is None


async def test_cgroup_v1_has_only_the_pressure_of_the_node(tmp_path, clock, fake) -> None:
    fake.v1()
    bench = Bench(tmp_path, clock, fake, gates=build_gates({"KubeletPSI": True}, Release.parse("1.33")))
    bench.use()
    for resource in ("cpu", "memory", "io"):
        fake.put(f"proc/pressure/{resource}", TEXT)

    node, pod = await bench.stats.node(), await bench.only()

    assert isinstance(node.io, IoStats) and node.io.pressure == FOUND
    assert pod.io is None


async def test_cadvisor_metrics_have_the_total_time(tmp_path, clock, fake) -> None:
    bench = pressured(tmp_path, clock, fake, "1.36")

    found = of(await scrape(bench), container="main", name=bench.main, pod="web")

    for resource in ("cpu", "memory", "io"):
        assert found[f"container_pressure_{resource}_waiting_seconds_total"] == 0.004
        assert found[f"container_pressure_{resource}_stalled_seconds_total"] == 0.001
