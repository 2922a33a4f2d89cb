"""Admission: plugins that mutate, then validate an object before it is written.

One plugin is one module of :mod:`apiserver_stub.admission.plugins`, or a class that another distribution provides
through :mod:`apiserver_stub.hookspecs`.
"""

from apiserver_stub.admission.chain import AdmissionChain
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.plugin import AdmissionPlugin

__all__ = ["AdmissionChain", "AdmissionContext", "AdmissionPlugin"]
