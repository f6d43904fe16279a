"""The embedded control plane: an API server in memory, the operator, and a node agent that runs pods as processes.

Import the modules: `local.apiserver` (the server), `local.nodeagent` and `local.process_runtime` (the node),
`local.controlplane` (all of it wired together), `local.run` (one job from start to end), `local.daemon` (the
background process). Nothing is imported here, so that each command pays only for what it uses.
"""
