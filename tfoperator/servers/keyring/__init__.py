"""The server certificate that all replicas of the operator share. It is in a Secret.

The operator renews the certificate in such an order that clients always trust the certificate in use.
"""
