"""Receives reports of progress from training programs, and writes them to the statuses of the programs' TFJobs.

The programs use the protocol of Kubeflow Trainer. The package is imported only if an option enables it. `server` is the
HTTPS server. `tokens` finds the pod to which the token of a request belongs. `reports` parses reports. `merging`
computes the status from the reports, without I/O. `writer` writes the status, and limits the number of writes.
"""
