"""Receives reports of training programs, by Kubeflow Trainer's protocol, and writes them to the statuses of their jobs.

Not imported unless an option enables it. `server` is the HTTPS server, `tokens` authenticates the reporting pod,
`reports` parses reports; `merging` computes the status from them, without I/O; `writer` writes it, within a budget.
"""
