"""How the conversion webhook is reached, as manifests/ has it: what the CRD, the manifests and the options agree on."""

from __future__ import annotations

CRD_NAME = "tfjobs.kubeflow.org"
SYSTEM_NAMESPACE = "tfoperator-system"
WEBHOOK_SERVICE = "tfoperator-webhook"
WEBHOOK_SECRET = "tfoperator-webhook-cert"
CONVERSION_PATH = "/convert"
