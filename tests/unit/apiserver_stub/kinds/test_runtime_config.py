"""Tests for ``--runtime-config``: groups, versions and resources; the most specific key takes precedence."""

from __future__ import annotations

import pytest

from apiserver_stub.kinds.runtime_config import enabled, errors
from apiserver_stub.options import OptionsError, parse
from apiserver_stub.server.kinds import build_registry
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release

EVENTS, LEASES = ("events.k8s.io", "v1", "events"), ("coordination.k8s.io", "v1", "leases")


def served(*arguments: str) -> set[tuple[str, str]]:
    return set(build_registry(parse([f"--runtime-config={item}" for item in arguments])).group_versions())


@pytest.mark.row("runtime-config.group-version")
def test_group_version_is_enabled_and_disabled() -> None:
    assert ("events.k8s.io", "v1") not in served("events.k8s.io/v1=false")
    assert ("events.k8s.io", "v1") in served("events.k8s.io/v1")
    registry = build_registry(parse(["--runtime-config=authentication.k8s.io/v1/tokenreviews=false"]))
    assert registry.find("authentication.k8s.io", "v1", "tokenreviews") is None
    assert registry.find("authentication.k8s.io", "v1", "selfsubjectreviews") is not None


@pytest.mark.row("runtime-config.group-version")
@pytest.mark.parametrize(
    ("text", "on"),
    [*((text, True) for text in ("", "1", "t", "True")), *((text, False) for text in ("0", "f", "FALSE"))],
)
def test_boolean_values_are_accepted_in_each_spelling(text: str, on: bool) -> None:
    assert (("events.k8s.io", "v1") in served(f"events.k8s.io/v1={text}")) is on


@pytest.mark.row("runtime-config.v1")
@pytest.mark.parametrize("key", ["v1", "api/v1"])
def test_core_group_cannot_be_disabled(key: str) -> None:
    assert ("", "v1") in served("api/all=false", f"{key}=true")
    with pytest.raises(OptionsError, match="the core group v1 cannot be switched off"):
        parse([f"--runtime-config={key}=false"])


@pytest.mark.row("runtime-config.api-all")
def test_api_all_applies_to_all_versions() -> None:
    assert served("api/all=false,v1=true,events.k8s.io/v1=true") == {("", "v1"), ("events.k8s.io", "v1")}
    assert enabled({"api/all": "true"}, "storage.k8s.io", "v1beta1", "x")
    with pytest.raises(OptionsError, match="invalid key with only api/all=false"):
        parse(["--runtime-config=api/all=false"])


@pytest.mark.row("runtime-config.api-ga")
def test_api_ga_applies_to_stable_versions() -> None:
    assert served("api/ga=false", "api/beta=false", "v1=true") == {("", "v1")}
    assert not enabled({"api/all": "true", "api/ga": "false"}, *EVENTS)
    assert enabled({"api/ga": "false", "events.k8s.io/v1": "true"}, *EVENTS)
    assert enabled({}, *EVENTS)
    assert [enabled(settings, "autoscaling", "v2", "x") for settings in ({}, {"api/ga": "false"})] == [True, False]
    assert enabled({"api/ga": "false", "api/beta": "true"}, "storage.k8s.io", "v1beta1", "x")


@pytest.mark.row("runtime-config.api-beta")
def test_api_beta_applies_to_beta_versions() -> None:
    assert not enabled({}, "storage.k8s.io", "v1beta1", "csistoragecapacities")
    assert enabled({"api/beta": "true"}, "storage.k8s.io", "v1beta1", "csistoragecapacities")
    assert enabled({"api/beta": "true"}, "flowcontrol.apiserver.k8s.io", "v12beta34", "x")
    assert not enabled({"api/beta": "true"}, "storage.k8s.io", "v1alpha1", "x")
    assert served("api/beta=true") == served()


@pytest.mark.row("runtime-config.api-alpha")
def test_api_alpha_applies_to_alpha_versions() -> None:
    assert not enabled({}, "storage.k8s.io", "v1alpha1", "x")
    assert enabled({"api/alpha": "true"}, "storage.k8s.io", "v1alpha1", "x")
    assert enabled({"api/alpha": "true"}, "resource.k8s.io", "v12alpha34", "x")
    assert not enabled({"api/alpha": "true"}, "storage.k8s.io", "v1beta1", "x")
    assert served("api/alpha=true") == served() | {
        ("internal.apiserver.k8s.io", "v1alpha1"),
        ("networking.k8s.io", "v1alpha1"),
    }


@pytest.mark.row("runtime-config.api-legacy")
def test_deprecated_key_has_no_effect() -> None:
    assert served("api/legacy=false") == served("api/legacy") == served()


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("foo", "runtime-config invalid key foo"),
        ("foo/v1", "unknown api groups foo"),
        ("events.k8s.io/v7", "group version events.k8s.io/v7 that has not been registered"),
        ("events.k8s.io/v1=maybe", "invalid value of events.k8s.io/v1: maybe, err: strconv.ParseBool"),
    ],
)
def test_unknown_key_is_rejected(argument: str, message: str) -> None:
    with pytest.raises(OptionsError) as error:
        parse([f"--runtime-config={argument}"])

    assert message in str(error.value)


@pytest.mark.parametrize(
    ("key", "first", "last"),
    [
        ("certificates.k8s.io/v1beta1", 33, 36),
        ("resource.k8s.io/v1alpha2", 29, 30),
        ("resource.k8s.io/v1", 34, 36),
        ("storagemigration.k8s.io/v1beta1", 35, 36),
        ("storage.k8s.io/v1alpha1", 29, 35),
    ],
)
def test_keys_of_other_releases_are_rejected(key: str, first: int, last: int) -> None:
    valid = [minor for minor in range(29, 37) if not errors({key: "true"}, Identity(), Release(1, minor))]

    assert valid == list(range(first, last + 1))


def test_groups_have_the_order_of_client_preference() -> None:
    groups = list(dict.fromkeys(group for group, _ in build_registry(parse([])).group_versions()))
    assert groups == [
        "apiregistration.k8s.io",
        "",
        "apps",
        "events.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "networking.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "storage.k8s.io",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "scheduling.k8s.io",
        "coordination.k8s.io",
        "node.k8s.io",
        "discovery.k8s.io",
        "flowcontrol.apiserver.k8s.io",
    ]


def test_versions_of_a_group_are_sorted_by_maturity() -> None:
    shown = build_registry(
        parse(["--runtime-config=certificates.k8s.io/v1alpha1=true", "--feature-gates=ClusterTrustBundle=true"])
    ).group_versions()
    assert [version for group, version in shown if group == "certificates.k8s.io"] == ["v1", "v1alpha1"]
