"""The server certificate that all replicas of the operator share. A Secret contains it.

The operator renews the certificate in such an order that clients always trust the certificate in use.
"""
