"""Tests for AppArmor profiles of containers."""

from __future__ import annotations

import pytest

from nodeagent.model.apparmor import apparmor_profile, apparmor_profiles
from nodeagent.testing import make_container, make_pod

FIELD = {"appArmorProfile": {"type": "Localhost", "localhostProfile": "own"}}
POD_FIELD = {"appArmorProfile": {"type": "Unconfined"}}
ANNOTATION = {"container.apparmor.security.beta.kubernetes.io/main": "localhost/annotated"}


@pytest.mark.parametrize(
    ("field", "annotations", "pod_field", "profile"),
    [
        (None, None, None, None),
        (FIELD, ANNOTATION, POD_FIELD, ("Localhost", "own")),
        (None, ANNOTATION, POD_FIELD, ("Localhost", "annotated")),
        (None, None, POD_FIELD, ("Unconfined", None)),
        (None, {next(iter(ANNOTATION)): "runtime/default"}, None, ("RuntimeDefault", None)),
        (None, {next(iter(ANNOTATION)): "strange"}, POD_FIELD, ("Unconfined", None)),
    ],
)
def test_field_of_the_container_precedes_annotation_and_pod(field, annotations, pod_field, profile):
    pod = make_pod(
        containers=[make_container("main", security_context=field)],
        annotations=annotations,
        security_context=pod_field,
    )

    found = apparmor_profile(pod, pod.spec.containers[0])

    assert (found and (found.type, found.localhost_profile)) == profile


def test_all_stated_profiles_are_found():
    pod = make_pod(
        containers=[make_container("main", security_context=FIELD)],
        annotations=ANNOTATION,
        security_context=POD_FIELD,
    )

    assert sorted(profile.type for profile in apparmor_profiles(pod)) == ["Localhost", "Localhost", "Unconfined"]


def test_contexts_without_a_profile_state_none():
    pod = make_pod(containers=[make_container("main", security_context={"runAsUser": 1})], security_context={})

    assert list(apparmor_profiles(pod)) == []
