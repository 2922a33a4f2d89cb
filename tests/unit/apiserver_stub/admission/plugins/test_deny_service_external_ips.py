"""Tests for the DenyServiceExternalIPs admission plugin."""

from __future__ import annotations

import pytest

from apiserver_stub.admission import AdmissionChain
from apiserver_stub.admission.plugins.deny_service_external_ips import DenyServiceExternalIPs
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds.registry import Resource


@pytest.mark.row("admission.DenyServiceExternalIPs")
async def test_existing_external_ips_are_kept_and_new_ones_rejected(call):
    services = Resource("", "v1", "Service", "services")
    admission = AdmissionChain([DenyServiceExternalIPs()])
    old, new, less = ({"metadata": {"name": "s"}, "spec": {"externalIPs": list(ips)}} for ips in ("ab", "abc", "a"))

    for kept in (old, less):
        await admission.check(call(kept, old, operation="UPDATE", resource=services))
    with pytest.raises(ApiError, match="Use of external IPs is denied by admission control"):
        await admission.check(call(new, old, operation="UPDATE", resource=services))
