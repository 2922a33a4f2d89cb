"""Resources that the node has allocated to pods, and the resizes that change them.

The spec has the requested resources of a container; the node grants the *allocated* resources, and the runtime has
applied the *actuated* ones. All other components see pods with their allocated resources.
"""
