"""Device plugin for tests: a gRPC server with the published definitions, whose devices and faults a test controls."""

from tests.device_plugin.control import Control, Faults
from tests.device_plugin.service import DevicePluginService, register, serve

__all__ = ["Control", "DevicePluginService", "Faults", "register", "serve"]
