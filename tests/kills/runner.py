"""Runner: kills processes at random points of the workers' phases, and verifies the invariants."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.kills.attacher import Attacher
from tests.kills.mount_watch import MountWatch
from tests.kills.parties import API, CSI, NAMES, Parties, wait_for
from tests.kills.worker import KINDS, PHASES, Worker

PAUSE_POINTS = 25
"""Number of points after which all claims are deleted and the host is searched for leftovers."""
CONVERGE_SECONDS = 300.0
_METHODS = ("NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume", "NodeExpandVolume")
_CODES = ("UNAVAILABLE", "ABORTED", "INTERNAL", "DEADLINE_EXCEEDED", "INVALID_ARGUMENT")


@dataclass
class Point:
    """A kill of one or more processes.

    :ivar phase: the phase of the worker at whose beginning the delay starts.
    :ivar delay: seconds from then until the first kill.
    :ivar victims: name, and seconds until it is started again.
    :ivar fault: method and fault of the driver that is set before the kill.
    """

    phase: str
    delay: float
    victims: list[tuple[str, float]]
    fault: tuple[str, dict[str, Any]] | None = None


@dataclass
class Report:
    """Result of a run."""

    seed: int
    points: int = 0
    seconds: float = 0.0
    kills: Counter[str] = field(default_factory=Counter)
    phases: Counter[str] = field(default_factory=Counter)
    """Phases of all workers at the times of the kills, with the victim."""
    faults: Counter[str] = field(default_factory=Counter)
    records: int = 0
    """Records that pods have reported as synced."""
    published: int = 0
    """Volumes that the driver has published, one per pod."""
    violations: list[str] = field(default_factory=list)

    def text(self) -> str:
        return json.dumps(vars(self), indent=1)


class Runner:
    """One run on one node.

    :param workers: number of workers, which take the kinds of volumes in turn.
    :param log: prints one line per point.
    """

    def __init__(self, parties: Parties, seed: int, *, workers: int = len(KINDS), log: bool = False) -> None:
        self._parties, self._seed, self._count, self._log = parties, seed, workers, log
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._generation = 0
        self.report = Report(seed)

    def run(self, points: int, *, stop_at_violation: bool = True) -> Report:
        """Kill at *points* points; return the report, which lists the violations."""
        started = time.monotonic()
        watch = MountWatch(self._parties.agent.root, self._violate)
        attacher = Attacher(self._parties, self._violate)
        watch.start()
        attacher.start()
        try:
            while self.report.points < points and not (stop_at_violation and self.report.violations):
                self._generation += 1
                self._batch(min(PAUSE_POINTS, points - self.report.points), attacher)
        finally:
            attacher.stop()
            watch.stop()
            self._read_driver()
            self.report.seconds = round(time.monotonic() - started, 1)
        return self.report

    def _batch(self, points: int, attacher: Attacher) -> None:
        workers = [
            Worker(f"w{self._generation}-{n}", KINDS[n % len(KINDS)], self._parties, str(self._seed), self._violate)
            for n in range(self._count)
        ]
        for worker in workers:
            worker.start()
        for _ in range(points):
            self._perform(self._draw(), workers)
            if self.report.violations:
                break
        for worker in workers:
            worker.finish()
        self._parties.driver.faults.clear()
        for worker in workers:
            while worker.is_alive():
                worker.join(1.0)
                self._parties.revive()
        self._converge(attacher)
        if self._log:
            print(json.dumps({"verified": self.report.points, "violations": len(self.report.violations)}), flush=True)
        self.report.records += self._count_records()

    def _draw(self) -> Point:
        victims = self._random.sample(NAMES, self._random.choices((1, 2, 3), (75, 20, 5))[0])
        fault: tuple[str, dict[str, Any]] | None = None
        if self._random.random() < 0.4:
            kinds: Sequence[dict[str, Any]] = (
                {"delay": round(self._random.uniform(0.2, 3), 2), "count": 2},
                {"delay": 600, "count": 1},
                {"step": "after", "code": self._random.choice(_CODES), "count": 1},
                {"step": self._random.choice(("before", "between", "after")), "kill": True, "count": 1},
            )
            fault = self._random.choice(_METHODS), self._random.choice(kinds)
            if fault[1].get("delay") == 600 and CSI not in victims:
                victims.append(CSI)  # It ends the call.
        down = [(name, round(self._random.choice((0.0, self._random.uniform(0, 2))), 2)) for name in victims]
        return Point(self._random.choice(PHASES), round(self._random.expovariate(3), 3), down, fault)

    def _perform(self, point: Point, workers: Sequence[Worker]) -> None:
        before = {worker: worker.phases for worker in workers}

        def entered() -> bool:
            self._parties.revive()
            return bool(self.report.violations) or any(
                worker.phase == point.phase and worker.phases > before[worker] for worker in workers
            )

        # Not every phase occurs soon, for example if all workers wait for the end of a back-off.
        self._wait_briefly(entered, 8.0)
        if self.report.violations:
            return
        if point.fault is not None:
            method, fields = point.fault
            self._parties.driver.faults.set(method, **fields)
            self.report.faults[_name_of(fields)] += 1
        time.sleep(point.delay)
        for name, _ in point.victims:
            self.report.kills[name] += 1
            for phase in {worker.phase for worker in workers}:
                self.report.phases[f"{name} while {phase}"] += 1
            self._parties.kill(name)
        down_since = time.monotonic()
        for name, seconds in sorted(point.victims, key=lambda victim: (victim[1], victim[0] != API)):
            time.sleep(max(0.0, down_since + seconds - time.monotonic()))
            self._parties.start(name)
        self.report.points += 1
        if self._log:
            print(json.dumps({"point": self.report.points, **asdict(point)}), flush=True)

    @staticmethod
    def _wait_briefly(condition: Any, seconds: float) -> None:
        limit = time.monotonic() + seconds
        while not condition() and time.monotonic() < limit:
            time.sleep(0.02)

    # --- invariants -------------------------------------------------------------------------------------------

    def _violate(self, text: str) -> None:
        with self._lock:
            self.report.violations.append(text)
        print(f"seed {self._seed}, point {self.report.points}: {text}", file=sys.stderr, flush=True)

    def _converge(self, attacher: Attacher) -> None:
        try:
            wait_for(lambda: not self._parties.revive() and not self._leftovers(attacher), "clean", CONVERGE_SECONDS)
        except AssertionError:
            for each in self._leftovers(attacher):
                self._violate(f"remains after all claims were deleted: {each}")
        if attacher.problem:
            self._violate(f"attacher: {attacher.problem}")

    def _leftovers(self, attacher: Attacher) -> list[str]:
        root, driver = self._parties.agent.root, self._parties.driver
        found = self._parties.mounts()
        for pattern in (
            "pods/*/volumes/*/*",
            "pods/*/volumeDevices/*/*",
            "pods/*/volume-subpaths/*",
            "pods/*",
            "plugins/kubernetes.io/csi/volumeDevices/*/*",
            "plugins/kubernetes.io/csi/[!v]*/*",
            "local-volumes/*",
        ):
            found += [str(path) for path in root.glob(pattern)]
        found += [f"staged {volume}" for volume in driver.storage.all_staged()]
        found += [f"published {path}" for path in driver.storage.published()]
        found += [f"loop device of {each}" for each in _loop_devices(self._parties.directory)]
        found += [f"attachment {name}" for name in attacher.attached()]
        for resource in ("persistentvolumes", "persistentvolumeclaims"):
            items = self._parties.call("GET", f"/api/v1/{resource}").get("items") or ()
            found += [f"{resource} {item['metadata']['name']}" for item in items]
        return found

    def _read_driver(self) -> None:
        for text in self._parties.driver.storage.violations():
            self._violate(f"driver: {text}")
        calls = self._parties.driver.storage.calls("NodePublishVolume")
        self.report.published = len({call["target_path"] for call in calls})

    def _count_records(self) -> int:
        files = self._parties.directory.glob(f"acknowledged/w{self._generation}-*/acknowledged")
        return sum(len(file.read_text().splitlines()) for file in files)


def _name_of(fault: dict[str, Any]) -> str:
    if fault.get("kill"):
        return f"crash {fault['step']}"
    if fault.get("code"):
        return "error after success"
    return "hung" if fault["delay"] >= 600 else "slow"


def _loop_devices(directory: Path) -> list[str]:
    command = ["losetup", "--list", "--noheadings", "--output", "BACK-FILE"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [line.strip() for line in listed.splitlines() if line.strip().startswith(str(directory))]
