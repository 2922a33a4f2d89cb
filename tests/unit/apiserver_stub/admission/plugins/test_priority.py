"""Tests for the Priority admission plugin."""

from __future__ import annotations

import pytest

from apiserver_stub.admission import AdmissionChain
from apiserver_stub.admission.plugins.priority import Priority
from nodeagent.base.identity import Identity


class Plain:
    """Lister of a namespace without annotations."""

    def namespace(self, name):
        return {"metadata": {"name": name}}


@pytest.mark.row("admission.Priority")
async def test_update_without_priority_keeps_the_priority(call):
    old = {"metadata": {"name": "p"}, "spec": {"priority": 7, "preemptionPolicy": "Never"}}
    new = {"metadata": {"name": "p"}, "spec": {}}

    await AdmissionChain([Priority(Plain(), Identity())]).check(call(new, old, operation="UPDATE"))

    assert new["spec"] == old["spec"]
