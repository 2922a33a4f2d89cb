"""Tests for admission by AppArmor profiles."""

from __future__ import annotations

import pytest

from nodeagent.config.features import build_gates
from nodeagent.testing import FakeRuntime, make_container, make_context, make_pod
from nodeagent_plugins.pod_admission.apparmor import AppArmorAdmission


@pytest.fixture
def system(tmp_path):
    (tmp_path / "sys/kernel/security/apparmor").mkdir(parents=True)
    state = tmp_path / "sys/module/apparmor/parameters/enabled"
    state.parent.mkdir(parents=True)
    state.write_text("Y\n")
    return tmp_path / "sys"


def confined(profile, **spec):
    return make_pod(containers=[make_container(security_context={"appArmorProfile": profile})], **spec)


async def rejection(tmp_path, system, pod, **context):
    found = await AppArmorAdmission(make_context(tmp_path, **context), system).nodeagent_admit_pod(pod)
    return found and (found.reason, found.message)


@pytest.mark.parametrize("kind", ["RuntimeDefault", "Localhost"])
async def test_profile_needs_apparmor_on_the_host(tmp_path, system, kind):
    pod = confined({"type": kind, "localhostProfile": "strict"})

    assert await rejection(tmp_path, system, pod) is None
    assert await rejection(tmp_path, tmp_path / "none", pod) == (
        "AppArmor",
        "Cannot enforce AppArmor: AppArmor is not enabled on the host",
    )


async def test_profile_of_the_pod_needs_apparmor_too(tmp_path):
    pod = make_pod(security_context={"appArmorProfile": {"type": "RuntimeDefault"}})

    assert (await rejection(tmp_path, tmp_path / "none", pod))[0] == "AppArmor"


async def test_unconfined_pod_needs_no_apparmor(tmp_path):
    assert await rejection(tmp_path, tmp_path / "none", confined({"type": "Unconfined"})) is None
    assert await rejection(tmp_path, tmp_path / "none", make_pod()) is None


async def test_empty_profile_name_is_rejected(tmp_path, system):
    found = await rejection(tmp_path, system, confined({"type": "Localhost", "localhostProfile": " "}))

    assert found == ("AppArmor", 'Cannot enforce AppArmor: invalid empty AppArmor profile name of container "main"')


async def test_running_pod_keeps_running(tmp_path):
    runtime, pod = FakeRuntime(), confined({"type": "RuntimeDefault"})
    runtime.start("main", pod)

    assert await rejection(tmp_path, tmp_path / "none", pod, runtime=runtime) is None


@pytest.mark.row("gate.AppArmor")
async def test_profile_needs_the_feature_gate(tmp_path, system):
    pod = make_pod(annotations={"container.apparmor.security.beta.kubernetes.io/main": "runtime/default"})

    found = await rejection(tmp_path, system, pod, gates=build_gates({"AppArmor": False}))

    assert found == ("AppArmor", "Cannot enforce AppArmor: AppArmor disabled by feature-gate")
    assert await rejection(tmp_path, system, make_pod(), gates=build_gates({"AppArmor": False})) is None
    assert await rejection(tmp_path, system, pod) is None
