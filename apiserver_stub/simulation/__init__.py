"""Simulation of the API server: the complete server and clients on a simulated clock, network and disk.

One seed gives one order of events, so that a failure can be repeated, minimized and debugged.
"""
