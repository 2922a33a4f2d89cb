"""AlwaysAdmit admission plugin: admit every request."""

from __future__ import annotations

from apiserver_stub.admission import AdmissionPlugin


class AlwaysAdmit(AdmissionPlugin):
    """Admit every request (spec: admission.AlwaysAdmit)."""

    name = "AlwaysAdmit"
    order = 100
    enabled_by_default = False
    deprecated = True
    operations = ()
