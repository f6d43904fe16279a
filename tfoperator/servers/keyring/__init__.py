"""The server certificate that all replicas of the operator share. A Secret contains it.

At each renewal, clients already trust the authority that has signed the new certificate.
"""
