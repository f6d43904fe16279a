"""The TFJob resource: types, defaults, validation and the CRD made from them."""
