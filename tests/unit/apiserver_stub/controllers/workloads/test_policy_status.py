"""Tests for the status of ValidatingAdmissionPolicies."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.controllers.manager import ControllerManager
from apiserver_stub.controllers.workloads.policy_status import PolicyStatus
from apiserver_stub.feature_gates import build_gates
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, context, rest, running, store

__all__ = ["store"]

RELEASE, POLICIES = Release(1, 36), "admissionregistration.k8s.io/validatingadmissionpolicies"
REGISTRY = build_registry(parse([f"--compatibility-version={RELEASE}"]))


def put(store: MeteredStore, generation: int, expression: str, status: dict[str, Any] | None) -> None:
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}
    head = {"kind": "ValidatingAdmissionPolicy", "apiVersion": "admissionregistration.k8s.io/v1"}
    metadata = {"name": "p", "uid": "u", "generation": generation}
    store.put(POLICIES, {**head, "metadata": metadata, "spec": spec, "status": status})


async def test_each_generation_is_checked_once(store: MeteredStore, clock: FakeClock) -> None:
    manager = ControllerManager(
        [PolicyStatus], context(store), REGISTRY, Identity(), build_gates({}, RELEASE), clock, release=RELEASE
    )
    async with running(store, manager.run()):
        put(store, 1, "object.replicas > 1", {})
        await rest(store)
        first = store.read(POLICIES, "p")["status"]
        writes = store.writes
        put(store, 1, "object.replicas > 1", {**first, "conditions": []})
        await rest(store)
        assert store.writes == writes + 1
        put(store, 2, "object.spec.replicas > 1", {**first, "conditions": [{"type": "Own"}]})
        await rest(store)
        second = store.read(POLICIES, "p")["status"]

    (warning,) = first["typeChecking"]["expressionWarnings"]
    assert warning["fieldRef"] == "spec.validations[0].expression"
    assert "undefined field 'replicas'" in warning["warning"]
    assert second == {"observedGeneration": 2, "typeChecking": {}, "conditions": [{"type": "Own"}]}


async def test_new_and_deleted_policies_are_no_failure(
    store: MeteredStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    gates = build_gates({}, RELEASE)
    manager = ControllerManager([PolicyStatus], context(store), REGISTRY, Identity(), gates, clock, release=RELEASE)
    async with running(store, manager.run()):
        put(store, 1, "true", None)
        await rest(store)
        checked = store.read(POLICIES, "p")["status"]
        store.remove(POLICIES, "p")
        await rest(store)
        put(store, 2, "true", None)
        store.remove(POLICIES, "p")
        await rest(store)
    assert checked == {"observedGeneration": 1, "typeChecking": {}}
    assert caplog.messages == []
