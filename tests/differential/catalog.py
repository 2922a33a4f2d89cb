"""The resources under test and their base objects, from the files in ``objects/``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DIRECTORY = Path(__file__).parent / "objects"
OBJECTS = (_DIRECTORY,)
"""Directories of base objects; a file replaces those with its name in the directories before."""
NEWEST_OBJECTS = (*OBJECTS, _DIRECTORY / "release-1.36")
"""Those of recordings of release 1.36."""
NAMESPACE = "differential"
SERVER_OPTIONS = (
    "--runtime-config=api/all=true",
    "--feature-gates=ValidatingAdmissionPolicy=true,ClusterTrustBundle=true",
    "--enable-garbage-collector=false",
    "--enable-priority-and-fairness=false",
)
"""Options of both servers, so that they serve the same group versions and do not write the status of flow schemas."""
NEWEST_SERVER_OPTIONS = (
    "--runtime-config=certificates.k8s.io/v1alpha1=true,certificates.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true",
    "--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true,PodCertificateRequest=true,"
    "DRADeviceTaintRules=true",
    "--enable-garbage-collector=false",
    "--enable-priority-and-fairness=false",
)
"""Options of both servers for recordings of release 1.36."""

_CLUSTER_SCOPED = frozenset(
    (
        "apiservices",
        "certificatesigningrequests",
        "clusterrolebindings",
        "clusterroles",
        "clustertrustbundles",
        "csidrivers",
        "csinodes",
        "customresourcedefinitions",
        "deviceclasses",
        "devicetaintrules",
        "flowschemas",
        "ingressclasses",
        "ipaddresses",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "namespaces",
        "nodes",
        "persistentvolumes",
        "priorityclasses",
        "prioritylevelconfigurations",
        "resourceslices",
        "runtimeclasses",
        "selfsubjectaccessreviews",
        "selfsubjectreviews",
        "selfsubjectrulesreviews",
        "servicecidrs",
        "storageclasses",
        "subjectaccessreviews",
        "tokenreviews",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
        "volumeattachments",
        "volumeattributesclasses",
    )
)
_WITH_STATUS = frozenset(
    (
        "apiservices",
        "certificatesigningrequests",
        "cronjobs",
        "customresourcedefinitions",
        "daemonsets",
        "deployments",
        "devicetaintrules",
        "flowschemas",
        "horizontalpodautoscalers",
        "ingresses",
        "jobs",
        "namespaces",
        "nodes",
        "persistentvolumeclaims",
        "persistentvolumes",
        "poddisruptionbudgets",
        "pods",
        "prioritylevelconfigurations",
        "replicasets",
        "replicationcontrollers",
        "resourceclaims",
        "resourcequotas",
        "servicecidrs",
        "services",
        "statefulsets",
        "validatingadmissionpolicies",
        "volumeattachments",
    )
)
_UNSTORED = "reviews"
_SHARES = {"pods": 16, "services": 6, "persistentvolumes": 2.5, "persistentvolumeclaims": 1.5, "nodes": 1.5}
"""Relative numbers of cases; 1 for every other resource."""


@dataclass(frozen=True)
class Resource:
    """A resource with the objects that its cases start from."""

    name: str
    """Plural and group, such as ``ingresses.networking.k8s.io``."""
    api_version: str
    kind: str
    bases: tuple[dict[str, Any], ...]

    @property
    def plural(self) -> str:
        return self.name.partition(".")[0]

    @property
    def namespaced(self) -> bool:
        return self.plural not in _CLUSTER_SCOPED

    @property
    def stored(self) -> bool:
        """Return whether objects are stored, so that they can be updated and patched."""
        return not self.plural.endswith(_UNSTORED)

    @property
    def has_status(self) -> bool:
        """Return whether there is a status subresource."""
        return self.plural in _WITH_STATUS

    @property
    def share(self) -> float:
        """Return the relative number of cases."""
        return _SHARES.get(self.plural, 1)

    @property
    def path(self) -> str:
        """Return the path of the collection."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        return f"{root}/namespaces/{NAMESPACE}/{self.plural}" if self.namespaced else f"{root}/{self.plural}"


def resources(directories: Sequence[Path] = OBJECTS) -> list[Resource]:
    """Return every resource with base objects in *directories*, by name."""
    paths = {path.stem: path for directory in directories for path in directory.glob("*.yaml")}
    found = []
    for name, path in sorted(paths.items()):
        if name != "setup":
            bases = tuple(yaml.load_all(path.read_text(), Loader=_LOADER))
            found.append(Resource(name, bases[0]["apiVersion"], bases[0]["kind"], bases))
    return found


def setup_objects() -> list[dict[str, Any]]:
    """Return the objects that exist before the first case."""
    return list(yaml.safe_load_all((_DIRECTORY / "setup.yaml").read_text()))
