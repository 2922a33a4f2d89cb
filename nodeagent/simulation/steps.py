"""Steps of a simulation: changes of pods, events on the node and faults, derived from the seed. No I/O."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from nodeagent.base.simulation.memory import LONG_HOURS
from nodeagent.base.simulation.steps import CALM_SECONDS, ROUND_SECONDS, Step
from nodeagent.model.eviction_thresholds import Signal
from nodeagent.model.restart import RESTART_ALL
from nodeagent.simulation.pods import RULE_CODE
from nodeagent.simulation.volume_driver import CLAIMS

_PODS, _MAPS = 6, 2
_RATE = 1 / 40.0
"""Steps per second."""


def make_steps(seed: object, hours: int) -> list[Step]:
    """Return the steps of *hours* rounds, in order of time."""
    steps = [step for number in range(hours) for step in _round(seed, number)]
    return steps if hours < LONG_HOURS else [step for step in steps if step.kind not in _RESTARTS]


def _round(seed: object, number: int) -> list[Step]:
    """Return the steps of one round, which do not depend on those of other rounds."""
    chance = random.Random(f"{seed}/steps/{number}")
    kinds = list(_KINDS)
    faulty = chance.random() < 0.9
    weights = [_KINDS[kind][0] if faulty or kind in _ORDINARY else 0.0 for kind in kinds]
    rate = _RATE * chance.choice((0.3, 1.0, 1.0, 3.0))
    end = (number + 1) * ROUND_SECONDS - CALM_SECONDS
    steps, at = [], number * ROUND_SECONDS
    while (at := at + chance.expovariate(rate)) < end:
        (kind,) = chance.choices(kinds, weights)
        steps.append(Step(round(at, 3), kind, _KINDS[kind][1](chance)))
    return sorted([*steps, *_pressures(seed, number, end)], key=lambda step: step.at)


def _pressures(seed: object, number: int, end: float) -> list[Step]:
    """Return the steps of one round that use up resources, which do not change the other steps."""
    chance = random.Random(f"{seed}/pressures/{number}")
    kinds, weights = list(PRESSURES), [weight for weight, _ in PRESSURES.values()]
    steps = []
    for _ in range(chance.choice((0, 0, 3, 8, 20))):
        at, (kind,) = chance.uniform(number * ROUND_SECONDS, end), chance.choices(kinds, weights)
        steps.append(Step(round(at, 3), kind, PRESSURES[kind][1](chance)))
    return steps


# --- arguments ------------------------------------------------------------------------------------------------


def _name(chance: random.Random) -> str:
    return f"pod-{chance.randrange(_PODS)}"


def _map(chance: random.Random) -> str:
    return f"map-{chance.randrange(_MAPS)}"


def _put_map(chance: random.Random) -> dict[str, Any]:
    return {"name": _map(chance), "value": chance.randrange(1000)}


def _delete_map(chance: random.Random) -> dict[str, Any]:
    return {"name": _map(chance)}


def _create(chance: random.Random) -> dict[str, Any]:
    policy = chance.choice(("Always", "Always", "OnFailure", "Never"))
    return {
        "name": _name(chance),
        "policy": policy,
        "containers": chance.choice((1, 1, 1, 2, 3)),
        "init": chance.choice((0, 0, 1)),
        "init_failures": chance.choice((0, 0, 1, 3)),
        "grace": chance.choice((0, 2, 10, 30, 30, 60)),
        "runs": max(0.1, round(chance.expovariate(1 / 300), 1)) if policy != "Always" or chance.random() < 0.3 else 0,
        "code": chance.choice((0, 0, 1, RULE_CODE)),
        "volume": chance.random() < 0.5,
        "probe": chance.random() < 0.2,
        "hook": chance.random() < 0.2,
        "device": chance.random() < 0.4,
        "config": _map(chance) if chance.random() < 0.4 else "",
        "cpu": chance.choice((0, 0, 100, 300)),
        "claim": chance.choice(CLAIMS) if chance.random() < 0.6 else "",
        "sidecars": chance.choice((0, 0, 0, 1, 2)),
        "startup": chance.choice((0, 0, 0, 5, 20)),
        "ready": chance.random() < 0.3,
        "start_hook": chance.random() < 0.15,
        "deadline": chance.choice((0, 0, 0, 0, 60, 600)),
        "rule": chance.choice(("", "", "", "", "Restart", RESTART_ALL)),
    }


def _delete(chance: random.Random) -> dict[str, Any]:
    return {"name": _name(chance), "grace": chance.choice((None, None, None, 1, 5, 0))}


def _resize(chance: random.Random) -> dict[str, Any]:
    return {"which": chance.randrange(1000), "cpu": chance.choice((50, 100, 200, 500, 3000))}


def _debug(chance: random.Random) -> dict[str, Any]:
    return {"which": chance.randrange(1000), "runs": chance.choice((0, 30))}


def _which(chance: random.Random) -> dict[str, Any]:
    return {"which": chance.randrange(1000)}


def _misreport(chance: random.Random) -> dict[str, Any]:
    return {"which": chance.randrange(1000), **_seconds(chance)}


def _static(chance: random.Random) -> dict[str, Any]:
    return {"name": f"static-{chance.randrange(2)}", "version": chance.randrange(5)}


def _pick(chance: random.Random) -> dict[str, Any]:
    return {"which": chance.randrange(1000), "code": chance.choice((0, 1, 137, RULE_CODE))}


def _crash(chance: random.Random) -> dict[str, Any]:
    return {"after": int(chance.expovariate(1 / 40)), "restart": round(chance.uniform(0.1, 20), 2)}


def _seconds(chance: random.Random) -> dict[str, Any]:
    return {"seconds": round(chance.expovariate(1 / 60), 1)}


def _reject(chance: random.Random) -> dict[str, Any]:
    return {
        "code": chance.choice((409, 410, 429, 500, 503)),
        "probability": chance.choice((0.1, 0.5)),
        **_seconds(chance),
    }


def _likely(chance: random.Random) -> dict[str, Any]:
    return {"probability": chance.choice((0.1, 0.5)), **_seconds(chance)}


def _hang(chance: random.Random) -> dict[str, Any]:
    return {"call": chance.choice(_CALLS), **_seconds(chance)}


def _fail(chance: random.Random) -> dict[str, Any]:
    return {"call": chance.choice(_CALLS), "probability": chance.choice((0.2, 1.0)), **_seconds(chance)}


def _slow(chance: random.Random) -> dict[str, Any]:
    return {"factor": chance.choice((10, 100, 1000)), **_seconds(chance)}


def _fail_driver(chance: random.Random) -> dict[str, Any]:
    return {"call": chance.choice(_DRIVER_CALLS), "uncertain": chance.random() < 0.5, **_seconds(chance)}


def _hang_driver(chance: random.Random) -> dict[str, Any]:
    return {"call": chance.choice(_DRIVER_CALLS), **_seconds(chance)}


def _slow_threads(chance: random.Random) -> dict[str, Any]:
    return {"factor": chance.choice((10, 100)), **_seconds(chance)}


def _disturb(chance: random.Random) -> dict[str, Any]:
    return {"hangs": chance.random() < 0.3, **_seconds(chance)}


def _jump(chance: random.Random) -> dict[str, Any]:
    return {"seconds": chance.choice((-3600, -60, -1, 1, 60, 3600))}


def _shut_down(chance: random.Random) -> dict[str, Any]:
    cancelled_after = round(chance.uniform(0.1, 20), 1) if chance.random() < 0.3 else 0
    return {"restart": round(chance.uniform(0.1, 20), 2), "cancelled_after": cancelled_after}


def _use_memory(chance: random.Random) -> dict[str, Any]:
    return {"available": chance.choice((50, 300, 450, 600, 950)), "seconds": round(chance.expovariate(1 / 60), 1)}


def _use_disk(chance: random.Random) -> dict[str, Any]:
    disk, percent = chance.choice((Signal.NODEFS, Signal.IMAGEFS)), chance.choice((3, 7, 11, 12, 13, 14))
    return {"disk": str(disk), "percent": percent, "seconds": round(chance.expovariate(1 / 300), 1)}


def _pull_images(chance: random.Random) -> dict[str, Any]:
    return {"first": chance.randrange(8), "count": chance.randrange(1, 6)}


def _disturb_images(chance: random.Random) -> dict[str, Any]:
    call = chance.choice(("RemoveImage", "ListImages", "ImageFsInfo", "PullImage"))
    return {"call": call, "hangs": chance.random() < 0.5, **_seconds(chance)}


def _none(chance: random.Random) -> dict[str, Any]:
    return {}


_CALLS: Sequence[str] = (
    "*",
    "RunPodSandbox",
    "StopPodSandbox",
    "RemovePodSandbox",
    "CreateContainer",
    "StartContainer",
    "StopContainer",
    "RemoveContainer",
    "ListContainers",
    "ListPodSandbox",
    "ContainerStatus",
    "PodSandboxStatus",
    "PullImage",
    "ImageStatus",
    "ExecSync",
)
_DRIVER_CALLS: Sequence[str] = (
    "*",
    "mount",
    "mount.after",
    "mount_device",
    "mount_device.after",
    "unmount",
    "unmount.after",
    "unmount_device",
    "unmount_device.after",
)
_KINDS: dict[str, tuple[float, Callable[[random.Random], dict[str, Any]]]] = {
    "create_pod": (8, _create),
    "delete_pod": (5, _delete),
    "change_image": (2, _pick),
    "resize_pod": (1.5, _resize),
    "debug_pod": (1, _debug),
    "put_static": (2, _static),
    "remove_static": (1.5, _static),
    "put_map": (2, _put_map),
    "delete_map": (0.5, _delete_map),
    "exit_container": (3, _pick),
    "break_container": (2, _which),
    "remove_images": (0.5, _none),
    "stop_agent": (0.5, _crash),
    "crash_agent": (3, _crash),
    "suspend_agent": (0.7, _seconds),
    "lose_power": (0.6, _crash),
    "shut_down": (0.5, _shut_down),
    "lose_bus": (0.3, _seconds),
    "end_sandbox": (0.7, _pick),
    "stop_api": (1, _seconds),
    "silence_api": (1, _seconds),
    "reject_requests": (1, _reject),
    "lose_responses": (1, _likely),
    "duplicate_events": (1, _likely),
    "slow_api": (0.7, _slow),
    "expire_certificate": (0.4, _seconds),
    "end_watches": (1, _none),
    "compact": (1, _none),
    "stop_runtime": (1, _seconds),
    "hang_runtime": (1, _hang),
    "fail_runtime": (1, _fail),
    "slow_runtime": (0.7, _slow),
    "misreport_sandbox": (0.5, _misreport),
    "misreport_container": (0.5, _misreport),
    "fail_driver": (1, _fail_driver),
    "hang_driver": (0.7, _hang_driver),
    "lose_network": (0.4, _seconds),
    "fill_disk": (0.7, _seconds),
    "slow_disk": (0.7, _slow_threads),
    "exhaust_pids": (0.5, _seconds),
    "disturb_plugin": (0.7, _disturb),
    "jump_clock": (0.4, _jump),
}
"""Weight and arguments by kind."""
_ORDINARY = {
    "create_pod",
    "delete_pod",
    "change_image",
    "resize_pod",
    "debug_pod",
    "put_static",
    "remove_static",
    "put_map",
    "delete_map",
    "exit_container",
    "break_container",
    "remove_images",
    "stop_agent",
}
PRESSURES: dict[str, tuple[float, Callable[[random.Random], dict[str, Any]]]] = {
    "use_memory": (2, _use_memory),
    "use_disk": (4, _use_disk),
    "pull_images": (2, _pull_images),
    "disturb_images": (1, _disturb_images),
}
"""Weight and arguments by kind of the steps that use up a resource of the node, or affect how it is reclaimed."""
_RESTARTS = {"stop_agent", "crash_agent", "lose_power", "shut_down"}
FAULTS = (frozenset(_KINDS) | frozenset(PRESSURES)) - _ORDINARY
