"""Tools for plugin authors: a project generator and a static and load-time check of plugins."""
