"""``/flagz`` and ``/statusz``: flags, start time and versions of a component, as text or as API objects."""
