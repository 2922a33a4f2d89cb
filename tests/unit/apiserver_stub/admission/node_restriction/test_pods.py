"""Tests for the references that mirror pods must not have, by release."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.node_restriction.pods import references
from nodeagent.base.release import Release


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"serviceAccountName": "a"}, ("a service account", "a service account", "serviceaccounts")),
        (volume(cephfs={"secretRef": {"name": "s"}}), ("secrets", "secrets", "secrets")),
        ({"resourceClaims": [{"name": "c"}]}, ("resourceclaims",) * 3),
        (volume(csi={"driver": "d"}), ("", "", "csidrivers (via CSI volumes)")),
        (volume(projected={"sources": [{"clusterTrustBundle": {}}]}), ("clustertrustbundles",) * 3),
        (volume(persistentVolumeClaim={"claimName": "c"}), ("persistentvolumeclaims",) * 3),
        (volume(hostPath={"path": "/"}), ("", "", "")),
        (volume(configMap={}), ("configmaps",) * 3),
        ({"containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": "m"}}]}]}, ("configmaps",) * 3),
    ],
)
def test_references_of_mirror_pods_depend_on_the_release(spec: dict[str, Any], expected: tuple[str, str, str]) -> None:
    found = tuple(next(references(spec, Release(1, minor)), "") for minor in (29, 32, 34))

    assert found == expected
