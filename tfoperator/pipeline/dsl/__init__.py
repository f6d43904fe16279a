"""The definition of pipelines: components, and typed channels between them, as in the TFX design (RFC 20190829).

Objects of this package only describe a pipeline. `graph_of` converts them into the plain values that all other code
uses.
"""
