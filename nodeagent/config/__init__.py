"""Configuration of the agent: files, flags, defaults and validation.

``load.load_configuration`` is the entry point; :mod:`nodeagent.contracts.configuration` has the resulting types.
"""
