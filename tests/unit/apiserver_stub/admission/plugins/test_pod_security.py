"""Tests for the PodSecurity admission plugin: modes, exemptions and changes of namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.config import AdmissionError
from apiserver_stub.admission.listers import Lister
from apiserver_stub.admission.plugins import pod_security as module
from apiserver_stub.admission.plugins.pod_security import PodSecurity
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.api import Api, Object, Response
from tests.unit.apiserver_stub.authz.conftest import Memory

NAMESPACES, PODS = "/api/v1/namespaces", "/api/v1/namespaces/n/pods"
PREFIX = "pod-security.kubernetes.io/"
CONFIG = {"kind": "PodSecurityConfiguration", "apiVersion": "pod-security.admission.config.k8s.io/v1"}
VIOLATION = "host namespaces (hostPID=true)"


def labels(**modes: str) -> Object:
    return {PREFIX + mode.replace("_", "-"): level for mode, level in modes.items()}


def namespace(name: str = "n", **modes: str) -> Object:
    return {"metadata": {"name": name, "labels": labels(**modes)}}


def pod(name: str = "p", *, shares: bool = True, **spec: Any) -> Object:
    """Return a pod that violates the level baseline if it *shares* the processes of the node."""
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}], "hostPID": shares, **spec},
    }


def server(modes: Object | None = None, **config: Any) -> Api:
    """Return a server with the namespace n."""
    store: Any = Memory()
    store.put("core/namespaces", {"metadata": {"name": "n", "uid": "n", "labels": labels(**(modes or {}))}})
    given = {**CONFIG, **config} if config else {}
    return Api(store=store, plugins=[PodSecurity(Lister(store), given, Identity())])


async def created(api: Api, obj: Object | None = None) -> Response:
    return await api.request("POST", PODS, obj or pod())


async def test_modes_of_the_namespace_reject_and_warn() -> None:
    would, does = (
        f'would violate PodSecurity "baseline:latest": {VIOLATION}',
        'violates PodSecurity "baseline:latest": ',
    )
    for modes, code, warnings in (
        ({}, 201, []),
        ({"enforce": "privileged"}, 201, []),
        ({"enforce": "baseline"}, 403, []),
        ({"warn": "baseline"}, 201, [would.replace('"', '\\"')]),
        ({"audit": "baseline"}, 201, []),
        ({"enforce": "baseline", "warn": "baseline"}, 403, []),
    ):
        response = await created(server(modes))
        assert (response.code, response.warnings) == (code, warnings), modes
        if code == 403:
            assert (does + VIOLATION) in response.message, modes
        assert (await created(server(modes), pod(shares=False))).code == 201, modes
    versioned = await created(server({"enforce": "baseline", "enforce_version": "v1.20"}))
    assert 'violates PodSecurity "baseline:v1.20"' in versioned.message


async def test_configuration_has_defaults_and_exemptions() -> None:
    strict = {"enforce": "baseline"}
    for title, config, spec, code in (
        ("default", {"defaults": strict}, {}, 403),
        ("namespace", {"defaults": strict, "exemptions": {"namespaces": ["n"]}}, {}, 201),
        ("another namespace", {"defaults": strict, "exemptions": {"namespaces": ["m"]}}, {}, 403),
        ("user", {"defaults": strict, "exemptions": {"usernames": ["admin"]}}, {}, 201),
        ("another user", {"defaults": strict, "exemptions": {"usernames": ["x"]}}, {}, 403),
        ("class", {"defaults": strict, "exemptions": {"runtimeClasses": ["r"]}}, {"runtimeClassName": "r"}, 201),
        (
            "another class",
            {"defaults": strict, "exemptions": {"runtimeClasses": ["r"]}},
            {"runtimeClassName": "s"},
            403,
        ),
        ("no class", {"defaults": strict, "exemptions": {"runtimeClasses": ["r"]}}, {}, 403),
    ):
        assert (await created(server(**config), pod(**spec))).code == code, title


async def test_updates_are_checked_if_images_change() -> None:
    api = server()
    await created(api)
    api.store.put("core/namespaces", {"metadata": {"name": "n", "labels": labels(enforce="baseline")}})
    current = (await api.get(f"{PODS}/p")).obj
    labeled = {**current, "metadata": {**current["metadata"], "labels": {"a": "b"}}}
    assert (await api.request("PUT", f"{PODS}/p", labeled)).code == 200
    assert (
        await api.request(
            "PATCH",
            f"{PODS}/p",
            [{"op": "replace", "path": "/spec/containers/0/image", "value": "j"}],
            content_type="application/json-patch+json",
        )
    ).code == 403


async def test_invalid_labels_of_namespaces_are_rejected() -> None:
    api = server()
    valid = await api.request("POST", NAMESPACES, namespace("a", enforce="baseline", enforce_version="v1.24"))
    invalid = await api.request("POST", NAMESPACES, namespace("b", enforce="x"))
    changed = await api.request("PUT", f"{NAMESPACES}/a", namespace("a", enforce="x"))
    assert [item.code for item in (valid, invalid, changed)] == [201, 422, 422]
    assert "must be one of privileged, baseline, restricted" in invalid.message
    api.store.put("core/namespaces", {"metadata": {"name": "c", "uid": "c", "labels": labels(enforce="x")}})
    same = {"metadata": {"name": "c", "labels": {**labels(enforce="x"), "a": "b"}}}
    assert (await api.request("PUT", f"{NAMESPACES}/c", same)).code == 200


async def test_stricter_level_warns_about_existing_pods() -> None:
    listed = "p: host namespaces"
    for before, after, warned in (
        ({}, {"enforce": "baseline"}, True),
        ({"enforce": "baseline"}, {"enforce": "restricted"}, True),
        ({"enforce": "baseline"}, {"enforce": "baseline", "enforce_version": "v1.20"}, True),
        ({"enforce": "restricted"}, {"enforce": "baseline"}, False),
        ({"enforce": "baseline"}, {"enforce": "privileged"}, False),
        ({}, {"warn": "baseline"}, False),
    ):
        api = server()
        await created(api)
        api.store.put("core/namespaces", {"metadata": {"name": "n", "uid": "n", "labels": labels(**before)}})
        response = await api.request("PUT", f"{NAMESPACES}/n", namespace(**after))
        assert (response.code, len(response.warnings)) == (200, 2 if warned else 0), (before, after)
        if warned:
            assert response.warnings[1].startswith(listed), (before, after)
            assert "violate the new PodSecurity enforce level" in response.warnings[0], (before, after)


async def test_pods_with_the_same_violations_are_one_warning() -> None:
    for count, expected in ((2, "a (and 1 other pod): host namespaces"), (3, "a (and 2 other pods): host namespaces")):
        api = server(exemptions={"runtimeClasses": ["r"]})
        for name in "abc"[:count]:
            await created(api, pod(name))
        await created(api, pod("exempt", runtimeClassName="r"))
        response = await api.request("PUT", f"{NAMESPACES}/n", namespace(enforce="baseline"))
        assert response.warnings[1:] == [expected]


async def test_policy_of_an_exempt_namespace_is_reported_as_ignored() -> None:
    for modes, warned in (({"enforce": "baseline"}, True), ({"enforce": "privileged"}, False), ({}, False)):
        api = server(exemptions={"namespaces": ["e"]})
        response = await api.request("POST", NAMESPACES, namespace("e", **modes))
        assert len(response.warnings) == warned, modes
        for text in response.warnings:
            assert "is exempt from Pod Security, and the policy (enforce=baseline:latest) will be ignored" in text


def test_invalid_configuration_is_rejected() -> None:
    for config, problem in (
        ({"kind": "X"}, "PodSecurity: "),
        ({"unknown": 1}, "unknown"),
        ({"defaults": {"enforce": "x"}}, 'defaults.enforce: Invalid value: "x"'),
        ({"defaults": {"enforce-version": "x"}}, 'defaults.enforce-version: Invalid value: "x"'),
        ({"exemptions": {"usernames": [""]}}, r"exemptions.usernames\[0\]: Invalid value"),
        ({"exemptions": {"usernames": ["a", "a"]}}, r'exemptions.usernames\[1\]: Duplicate value: "a"'),
    ):
        with pytest.raises(AdmissionError, match=problem):
            server(**config)
    server(defaults={"enforce": "", "audit-version": "v1.20"}, exemptions={"usernames": ["a", "b"], "namespaces": None})


async def test_policy_that_is_the_default_is_not_reported_as_ignored() -> None:
    strict = {"enforce": "baseline", "warn": "baseline"}
    api = server(defaults=strict, exemptions={"namespaces": ["e"]})

    same = await api.request("POST", NAMESPACES, namespace("e", **strict))
    changed = await api.request("PUT", f"{NAMESPACES}/e", namespace("e", enforce="restricted", warn="baseline"))
    labeled = namespace("e", enforce="restricted", warn="restricted")
    repeated = await api.request("PUT", f"{NAMESPACES}/e", labeled)

    assert [len(response.warnings) for response in (same, changed, repeated)] == [0, 1, 0]


async def test_ignored_levels_of_other_modes_are_reported_on_creation() -> None:
    api = server(exemptions={"namespaces": ["e"]})

    response = await api.request("POST", NAMESPACES, namespace("e", audit="baseline"))

    assert len(response.warnings) == 1


@pytest.mark.parametrize(("count", "warned"), [(2, False), (3, True)])
async def test_only_some_existing_pods_are_checked(
    monkeypatch: pytest.MonkeyPatch, count: int, *, warned: bool
) -> None:
    monkeypatch.setattr(module, "_MAX_PODS", 2)
    api = server()
    for name in "abc"[:count]:
        await created(api, pod(name))

    response = await api.request("PUT", f"{NAMESPACES}/n", namespace(enforce="baseline"))

    text = "new PodSecurity enforce level only checked against the first 2 of 3 existing pods"
    assert (response.warnings[0] == text) is warned
    assert response.warnings[-1] == "a (and 1 other pod): host namespaces"
