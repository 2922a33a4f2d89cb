"""Metrics of devices and their providers."""

from __future__ import annotations

from nodeagent.base.metrics import Histogram, SampledGauge

ALLOCATION_SECONDS = Histogram(
    "device_plugin_alloc_duration_seconds",
    "Duration in seconds to serve a device plugin Allocation request. Broken down by resource name.",
    ("resource_name",),
)
DEVICES = SampledGauge(
    "device_plugin_devices",
    "Number of devices by resource and state: healthy, unhealthy, or allocated to containers.",
    ("resource_name", "state"),
)
CONNECTED = SampledGauge(
    "device_plugin_connected", "1 if the provider of the resource reports its devices, else 0.", ("resource_name",)
)
LIST_AGE = SampledGauge(
    "device_plugin_list_age_seconds", "Time since the last list of devices of the resource.", ("resource_name",)
)
