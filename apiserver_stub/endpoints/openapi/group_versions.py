"""Group versions that exist, whether they are served or not. Data, no I/O.

The options of deletions and the events of watches are kinds of each of them. A line names a group, with ``*`` for the
domain of bundled groups, and its versions; ``VERSION@FIRST-LAST`` limits a version to minor releases.
"""

from __future__ import annotations

from collections.abc import Iterator

_TABLE = """
core v1
admission.* v1 v1beta1
admissionregistration.* v1 v1alpha1 v1beta1
apiextensions.* v1 v1beta1
apiregistration.* v1 v1beta1
apps v1 v1beta1 v1beta2
authentication.* v1 v1alpha1 v1beta1
authorization.* v1 v1beta1
autoscaling v1 v2 v2beta1@-33 v2beta2@-33
batch v1 v1beta1
certificates.* v1 v1alpha1 v1beta1
coordination.* v1 v1alpha2@32- v1beta1
discovery.* v1 v1beta1
events.* v1 v1beta1
extensions v1beta1
flowcontrol.apiserver.* v1 v1beta1 v1beta2 v1beta3
imagepolicy.* v1alpha1
internal.apiserver.* v1alpha1
networking.* v1 v1alpha1@-33 v1beta1
node.* v1 v1alpha1 v1beta1
policy v1 v1beta1
rbac.authorization.* v1 v1alpha1 v1beta1
resource.* v1@34- v1alpha2@-30 v1alpha3@31- v1beta1@32- v1beta2@33-
scheduling.* v1 v1alpha1@-35 v1alpha2@36- v1beta1
storage.* v1 v1alpha1 v1beta1
storagemigration.* v1beta1@35-
"""


def registered(api_domain: str, minor: int) -> Iterator[tuple[str, str]]:
    """Yield each group and version of minor release *minor*."""
    for line in filter(None, _TABLE.split("\n")):
        name, *versions = line.split(" ")
        group = "" if name == "core" else name.replace("*", api_domain)
        for entry in versions:
            version, _, releases = entry.partition("@")
            first, _, last = releases.partition("-")
            if int(first or 0) <= minor <= int(last or 999):
                yield group, version
