"""Simulation of a node: the agent with its bundled plugins on a simulated clock, network, disk, runtime and API server.

One seed gives one order of events, so that a failure can be repeated, minimized and debugged.
"""
