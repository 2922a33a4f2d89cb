"""The configuration of the agent: its types, how files and flags become one, and the rules it must keep.

``load.load_configuration`` is the one call that the program makes; ``types`` is what every other part reads.
"""
