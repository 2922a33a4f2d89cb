"""DRA driver for tests: a process that registers with the agent, with faults and recorded calls.

For each prepared claim it writes a CDI spec with one device per allocated device, which sets an environment variable.
"""

from tests.dra_driver.control import Control

__all__ = ["Control"]
