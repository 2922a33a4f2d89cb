"""Tests for the EventRateLimit admission plugin."""

from __future__ import annotations

import pytest

from apiserver_stub.admission.config import AdmissionError
from apiserver_stub.admission.plugins.event_rate_limit import EventRateLimit
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds.registry import Resource
from nodeagent.base.identity import Identity

EVENTS = Resource("", "v1", "Event", "events")


@pytest.mark.row("admission.EventRateLimit")
async def test_event_rate_limit_buckets_refill(call, clock):
    limit = {"type": "User", "qps": 2, "burst": 2}
    head = {"apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration"}
    plugin = EventRateLimit({**head, "limits": [limit]}, clock, Identity())

    for user in ("a", "a", "b"):
        await plugin.validate(call({}, resource=EVENTS, user=user))
    with pytest.raises(ApiError, match="limit reached on type User for key a") as error:
        await plugin.validate(call({}, resource=EVENTS, user="a"))
    await plugin.validate(call({}, resource=EVENTS, user="a", dry_run=True))
    await clock.advance(0.5)
    await plugin.validate(call({}, resource=EVENTS, user="a"))

    assert (error.value.code, error.value.details) == (429, None)  # Clients do not retry without Retry-After.


def test_invalid_event_rate_limits_are_rejected(clock):
    head = {"apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration"}

    with pytest.raises(AdmissionError, match="must not be empty"):
        EventRateLimit({}, clock, Identity())
    with pytest.raises(AdmissionError) as error:
        EventRateLimit({**head, "limits": [{"type": "Moon", "qps": 0, "burst": -1}]}, clock, Identity())
    assert [problem.partition(": ")[2] for problem in error.value.problems] == [
        'limits[0].type: Unsupported value: "Moon": supported values: "Namespace", "Server", "SourceAndObject", "User"',
        "limits[0].burst: Invalid value: -1: must be positive",
        "limits[0].qps: Invalid value: 0: must be positive",
    ]


@pytest.mark.parametrize(
    ("kind", "key", "others"),
    [
        ("Server", "", []),
        ("Namespace", "default", [{"namespace": "other"}]),
        ("User", "u", [{"user": "v"}]),
        ("SourceAndObject", "kubeletn1Podnsp", [{"source": {"host": "n2"}}, {"object": {"name": "q"}}, {"source": {}}]),
    ],
)
async def test_events_are_limited_by_key(call, clock, kind, key, others):
    def event(source=None, obj=None, **attributes):
        source = {"component": "kubelet", "host": "n1"} if source is None else source
        involved = {"kind": "Pod", "namespace": "ns", "name": "p", **(attributes.pop("object", None) or {})}
        return call({"source": source, "involvedObject": involved}, resource=EVENTS, **attributes)

    head = {"apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration"}
    plugin = EventRateLimit({**head, "limits": [{"type": kind, "qps": 1, "burst": 1}]}, clock, Identity())

    await plugin.validate(event())
    for attributes in others:
        await plugin.validate(event(**attributes))
    with pytest.raises(ApiError) as error:
        await plugin.validate(event())

    assert error.value.message == f"Too many requests: limit reached on type {kind} for key {key}"


async def test_event_without_source_and_object_has_an_empty_key(call, clock):
    head = {"apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration"}
    limits = [{"type": name, "qps": 1, "burst": 1} for name in ("SourceAndObject", "Server")]
    plugin = EventRateLimit({**head, "limits": limits}, clock, Identity())

    await plugin.validate(call({}, resource=EVENTS))
    with pytest.raises(ApiError) as error:
        await plugin.validate(call({}, resource=EVENTS))

    texts = ", ".join(f"limit reached on type {name} for key " for name in ("SourceAndObject", "Server"))
    assert error.value.message == f"Too many requests: [{texts}]"


@pytest.mark.parametrize(("size", "problem"), [(0, ""), (1, ""), (-1, "must not be negative")])
def test_cache_size_is_not_negative(clock, size, problem):
    head = {"apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration"}
    found = ""

    try:
        EventRateLimit(
            {**head, "limits": [{"type": "User", "qps": 1, "burst": 1, "cacheSize": size}]}, clock, Identity()
        )
    except AdmissionError as error:
        found = str(error)

    assert problem in found
    assert bool(found) == bool(problem)
