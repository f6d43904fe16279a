"""Receives the reports of training programs by Kubeflow Trainer's protocol.

Writes the reports to the statuses of the programs' jobs. The package is imported only if an option enables it. `server`
is the HTTPS server. `tokens` authenticates the pod that reports. `reports` parses reports. `merging` computes the
status from them without I/O. `writer` writes the status, and limits the number of writes.
"""
