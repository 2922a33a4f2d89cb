"""Defaults of priority classes."""

from __future__ import annotations

from apiserver_stub.defaulting.table import Defaults

PRIORITY_CLASS = Defaults({"preemptionPolicy": "PreemptLowerPriority", "value": 0})
