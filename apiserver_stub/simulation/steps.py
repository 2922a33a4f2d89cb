"""Steps of the server's simulation: requests of clients and faults, derived from the seed. No I/O."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from apiserver_stub.simulation.admission import INVALID
from apiserver_stub.simulation.autoscaling import METRICS
from apiserver_stub.simulation.webhooks import BEHAVIORS, FIELDS, HEALTHY, NAMES
from nodeagent.base.simulation.memory import LONG_HOURS
from nodeagent.base.simulation.steps import CALM_SECONDS, ROUND_SECONDS, Step

NAMESPACES = ("default", "ns-0", "ns-1")
_RATE = 1 / 8.0
"""Steps per second."""
_FIRST_SECONDS = 30.0
_CONCURRENT = 0.4
"""Probability that a step immediately follows the previous one."""
_Kinds = dict[str, tuple[float, Callable[[random.Random], dict[str, Any]]]]
"""Weight and arguments by kind."""


def make_steps(seed: object, hours: int, servers: int = 1) -> list[Step]:
    """Return the steps of *hours* rounds, in order of time.

    :param servers: number of the servers; more than one share an etcd cluster, which has its own faults.
    """
    kinds = _KINDS if servers == 1 else _KINDS | _CLUSTER_KINDS
    steps = [step for number in range(hours) for step in _round(seed, number, kinds)]
    return steps if hours < LONG_HOURS else [step for step in steps if step.kind not in _RESTARTS]


def _round(seed: object, number: int, possible: _Kinds) -> list[Step]:
    """Return the steps of one round, which do not depend on those of other rounds."""
    chance = random.Random(f"{seed}/steps/{number}")
    kinds = list(possible)
    faulty = _happens(chance, 0.9)
    weights = [possible[kind][0] if faulty or kind not in FAULTS else 0.0 for kind in kinds]
    rate = _RATE * chance.choice((0.2, 1.0, 1.0, 2.0))
    end = (number + 1) * ROUND_SECONDS - CALM_SECONDS
    steps: list[Step] = []
    at = number * ROUND_SECONDS + _FIRST_SECONDS
    while True:
        at += chance.random() * 0.02 if _happens(chance, _CONCURRENT) else chance.expovariate(rate)
        if at >= end:
            return steps
        (kind,) = chance.choices(kinds, weights)
        steps.append(Step(round(at, 3), kind, possible[kind][1](chance)))


def _happens(chance: random.Random, probability: float) -> bool:
    return chance.random() < probability


# --- arguments ------------------------------------------------------------------------------------------------


def _object(chance: random.Random) -> dict[str, Any]:
    return {"namespace": chance.choice(NAMESPACES), "name": f"map-{chance.randrange(5)}"}


def _create(chance: random.Random) -> dict[str, Any]:
    return {
        **_object(chance),
        "value": chance.randrange(1000),
        "size": chance.choice((1, 1, 1, 500, 20000)),
        "finalizer": _happens(chance, 0.2),
        "dry_run": _happens(chance, 0.05),
    }


def _dependent(chance: random.Random) -> dict[str, Any]:
    return {**_object(chance), "number": chance.randrange(6), "block": _happens(chance, 0.5)}


def _update(chance: random.Random) -> dict[str, Any]:
    return {**_object(chance), "value": chance.randrange(1000), "versioned": _happens(chance, 0.7)}


def _contend(chance: random.Random) -> dict[str, Any]:
    return {**_object(chance), "count": chance.choice((2, 5))}


def _delete(chance: random.Random) -> dict[str, Any]:
    return {
        **_object(chance),
        "precondition": chance.choice(("", "", "uid", "version", "wrong")),
        "policy": chance.choice(("", "Background", "Foreground", "Orphan")),
    }


def _list(chance: random.Random) -> dict[str, Any]:
    return {
        "namespace": chance.choice((*NAMESPACES, "")),
        "limit": chance.choice((1, 2, 5, 0)),
        "pause": chance.choice((0.0, 0.0, 1.0, 30.0)),
    }


def _namespace(chance: random.Random) -> dict[str, Any]:
    return {"namespace": chance.choice(NAMESPACES[1:]), "quota": _happens(chance, 0.4)}


def _workload(chance: random.Random) -> dict[str, Any]:
    return {
        "namespace": chance.choice(NAMESPACES),
        "name": f"work-{chance.randrange(2)}",
        "count": chance.choice((0, 1, 2, 4)),
    }


def _job(chance: random.Random) -> dict[str, Any]:
    return {**_workload(chance), "fails": _happens(chance, 0.3)}


def _cron_job(chance: random.Random) -> dict[str, Any]:
    return {
        "namespace": chance.choice(NAMESPACES),
        "policy": chance.choice(("Allow", "Forbid", "Replace")),
        "suspend": _happens(chance, 0.2),
    }


def _volume(chance: random.Random) -> dict[str, Any]:
    return {"number": chance.randrange(3)}


def _claim(chance: random.Random) -> dict[str, Any]:
    volume = chance.randrange(3) if _happens(chance, 0.3) else None
    return {**_claim_pod(chance), "volume": volume}


def _claim_pod(chance: random.Random) -> dict[str, Any]:
    return {"namespace": chance.choice(NAMESPACES), "name": f"claim-{chance.randrange(3)}"}


def _apply(chance: random.Random) -> dict[str, Any]:
    values = {"value": chance.randrange(1000), "manager": chance.randrange(4), "force": _happens(chance, 0.5)}
    return {**_object(chance), **values}


def _set(chance: random.Random) -> dict[str, Any]:
    kind = chance.choice(("statefulsets", "daemonsets"))
    return {"namespace": "default", "kind": kind, "count": chance.choice((0, 1, 3)), "version": chance.randrange(2)}


def _widget(chance: random.Random) -> dict[str, Any]:
    return {"namespace": chance.choice(NAMESPACES), "number": chance.randrange(4)}


def _service(chance: random.Random) -> dict[str, Any]:
    return {
        "namespace": chance.choice(NAMESPACES),
        "name": f"service-{chance.randrange(3)}",
        "type": chance.choice(("ClusterIP", "NodePort", "NodePort")),
        "work": chance.randrange(2),
    }


def _webhook(chance: random.Random) -> dict[str, Any]:
    match = chance.choice(("selector", "condition", "condition", "all", INVALID))
    service = _happens(chance, 0.3)
    return {
        "webhook": chance.choice(NAMES),
        "policy": chance.choice(("Fail", "Ignore")),
        "timeout": chance.choice((1, 3, 10, 30)),
        "match": match,
        "deletes": _happens(chance, 0.5) and match != INVALID and not service,  # It would delay namespaces forever.
        "again": _happens(chance, 0.5),
        "service": service,
    }


def _broad_webhook(chance: random.Random) -> dict[str, Any]:
    return {
        "resources": chance.choice(("pods", "pods/*", "*", "*/*")),
        "policy": chance.choice(("Fail", "Fail", "Ignore")),
        "timeout": chance.choice((1, 5, 10)),
        "behavior": chance.choice(BEHAVIORS[1:]),
        "seconds": round(chance.expovariate(1 / 120), 1),
    }


def _autoscaler(chance: random.Random) -> dict[str, Any]:
    minimum = chance.choice((1, 2))
    return {"minimum": minimum, "maximum": minimum + chance.choice((1, 2, 4))}


def _load(chance: random.Random) -> dict[str, Any]:
    return {"load": chance.choice((0, 30, 100, 150, 250, 420, 900))}


def _metrics(chance: random.Random) -> dict[str, Any]:
    return {"behavior": chance.choice((METRICS[0], *METRICS))}


def _gadget_kind(chance: random.Random) -> dict[str, Any]:
    return {"storage": chance.choice(tuple(FIELDS))}


def _gadgets(chance: random.Random) -> dict[str, Any]:
    return {"namespace": chance.choice(NAMESPACES), "version": chance.choice(tuple(FIELDS))}


def _gadget(chance: random.Random) -> dict[str, Any]:
    return {**_gadgets(chance), "number": chance.randrange(3)}


def _write_gadget(chance: random.Random) -> dict[str, Any]:
    return {**_gadget(chance), "value": chance.randrange(1000)}


def _conversion(chance: random.Random) -> dict[str, Any]:
    return {"behavior": chance.choice((HEALTHY, HEALTHY, HEALTHY, *BEHAVIORS))}


def _delete_webhook(chance: random.Random) -> dict[str, Any]:
    return {"webhook": chance.choice(NAMES), "service": _happens(chance, 0.2)}


def _behavior(chance: random.Random) -> dict[str, Any]:
    return {"webhook": chance.choice(NAMES), "behavior": chance.choice((HEALTHY, HEALTHY, *BEHAVIORS))}


def _reviewed(chance: random.Random) -> dict[str, Any]:
    return {"namespace": chance.choice(NAMESPACES), "name": f"reviewed-{chance.randrange(3)}"}


def _write_reviewed(chance: random.Random) -> dict[str, Any]:
    return {
        **_reviewed(chance),
        "method": chance.choice(("POST", "POST", "PUT", "PATCH", "APPLY")),
        "webhooks": [name for name in NAMES if _happens(chance, 0.5)],
        "dry_run": _happens(chance, 0.1),
    }


def _flood(chance: random.Random) -> dict[str, Any]:
    return {"count": chance.choice((30, 100)), "writes": _happens(chance, 0.5)}


def _watch(chance: random.Random) -> dict[str, Any]:
    return {"which": chance.randrange(100)}


def _crash(chance: random.Random) -> dict[str, Any]:
    return {"after": int(chance.expovariate(1 / 200))}


def _crash_in_write(chance: random.Random) -> dict[str, Any]:
    return {"after": 1 + int(chance.expovariate(1 / 5)), "tears": _happens(chance, 0.6)}


def _seconds(chance: random.Random) -> dict[str, Any]:
    return {"seconds": round(chance.expovariate(1 / 40), 1)}


def _stop_node(chance: random.Random) -> dict[str, Any]:
    return {"which": chance.randrange(100), "seconds": round(chance.expovariate(1 / 200), 1)}


def _lag(chance: random.Random) -> dict[str, Any]:
    return {"lag": chance.choice((0.5, 2.0, 5.0, 20.0)), **_stop_node(chance)}


def _seconds_of_one(chance: random.Random) -> dict[str, Any]:
    return {"which": chance.randrange(100), **_seconds(chance)}


def _likely(chance: random.Random) -> dict[str, Any]:
    return {"probability": chance.choice((0.02, 0.2)), **_seconds(chance)}


def _slow(chance: random.Random) -> dict[str, Any]:
    return {"factor": chance.choice((10, 100)), **_seconds(chance)}


def _jump(chance: random.Random) -> dict[str, Any]:
    return {"seconds": chance.choice((-3600, -60, -1, 1, 60, 3600))}


def _none(chance: random.Random) -> dict[str, Any]:
    return {}


_KINDS: _Kinds = {
    "create_map": (10, _create),
    "create_dependent": (3, _dependent),
    "update_map": (8, _update),
    "contend": (2, _contend),
    "patch_map": (4, _update),
    "apply_map": (3, _apply),
    "delete_map": (6, _delete),
    "read_map": (4, _object),
    "remove_finalizer": (2, _object),
    "delete_maps": (0.5, _list),
    "list_maps": (3, _list),
    "create_namespace": (2, _namespace),
    "delete_namespace": (0.7, _namespace),
    "apply_deployment": (1.5, _workload),
    "delete_deployment": (0.6, _workload),
    "roll_deployment": (0.6, _workload),
    "create_job": (0.8, _job),
    "apply_cron_job": (0.5, _cron_job),
    "delete_cron_job": (0.2, _cron_job),
    "create_volume": (1, _volume),
    "delete_volume": (0.4, _volume),
    "create_claim": (1, _claim),
    "delete_claim": (0.6, _claim),
    "create_claim_pod": (0.8, _claim_pod),
    "delete_claim_pod": (0.6, _claim_pod),
    "apply_set": (0.7, _set),
    "delete_set": (0.2, _set),
    "evict_pod": (0.6, _watch),
    "create_budget": (0.3, _workload),
    "create_custom_kind": (0.4, _none),
    "delete_custom_kind": (0.2, _none),
    "create_widget": (1, _widget),
    "delete_widget": (0.3, _widget),
    "create_service": (1.5, _service),
    "delete_service": (1, _service),
    "apply_webhook": (2, _webhook),
    "apply_broad_webhook": (0.3, _broad_webhook),
    "delete_webhook": (0.5, _delete_webhook),
    "set_webhook": (2, _behavior),
    "write_reviewed": (8, _write_reviewed),
    "delete_reviewed": (2, _reviewed),
    "apply_autoscaler": (0.4, _autoscaler),
    "delete_autoscaler": (0.1, _none),
    "set_load": (0.6, _load),
    "set_metrics": (0.4, _metrics),
    "apply_gadget_kind": (0.5, _gadget_kind),
    "write_gadget": (2, _write_gadget),
    "read_gadget": (1, _gadget),
    "list_gadgets": (0.8, _gadgets),
    "delete_gadget": (0.5, _gadget),
    "set_conversion": (0.6, _conversion),
    "flood": (0.3, _flood),
    "stop": (0.3, _none),
    "crash": (0.6, _crash),
    "lose_power": (0.4, _crash),
    "crash_in_write": (0.6, _crash_in_write),
    "fill_disk": (0.4, _seconds),
    "slow_disk": (0.4, _slow),
    "jump_clock": (0.3, _jump),
    "cut_connection": (1.5, _watch),
    "lose_segments": (0.4, _likely),
    "slow_network": (0.4, _slow),
    "pause_watch": (0.5, _seconds),
    "stop_node": (0.3, _stop_node),
}
_CLUSTER_KINDS: _Kinds = {
    "stop_member": (0.8, _stop_node),
    "isolate_server": (0.6, _stop_node),
    "delay_watches": (1, _lag),
    "pause_server": (0.5, _seconds_of_one),
    "slow_store": (0.4, _slow),
    "lose_responses": (0.5, _likely),
    "close_watches": (0.5, _watch),
}
CLUSTER_FAULTS = frozenset(_CLUSTER_KINDS)
"""Faults of one of several servers, and of their etcd cluster."""
_RESTARTS = {"stop", "crash", "lose_power", "crash_in_write"}
FAULTS = (
    frozenset(
        {
            "flood",
            "crash",
            "lose_power",
            "crash_in_write",
            "fill_disk",
            "slow_disk",
            "jump_clock",
            "cut_connection",
            "lose_segments",
            "slow_network",
            "pause_watch",
            "stop_node",
        }
    )
    | CLUSTER_FAULTS
)
