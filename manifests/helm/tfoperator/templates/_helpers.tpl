{{- define "tfoperator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "tfoperator.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "tfoperator.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "tfoperator.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "tfoperator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "tfoperator.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* The labels of objects and pods, without commonLabels. */}}
{{- define "tfoperator.podLabels" -}}
{{ include "tfoperator.selectorLabels" . }}
app.kubernetes.io/part-of: tfoperator
app.kubernetes.io/component: operator
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "tfoperator.labels" -}}
{{ include "tfoperator.podLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The labels with additional labels, which replace commonLabels with the same names: (list . LABELS). */}}
{{- define "tfoperator.labelsWith" -}}
{{ mergeOverwrite (include "tfoperator.labels" (index . 0) | fromYaml) (index . 1) | toYaml }}
{{- end }}

{{/* The annotations of a Service. */}}
{{- define "tfoperator.serviceAnnotations" -}}
{{- with .Values.serviceAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The chart's own fields, with the fields of a value added: (list OWN-YAML VALUE). */}}
{{- define "tfoperator.merged" -}}
{{ mergeOverwrite (index . 0 | fromYaml) (deepCopy (index . 1)) | toYaml }}
{{- end }}

{{/* Fail for values that would have no effect. */}}
{{- define "tfoperator.check" -}}
{{- $v := .Values }}
{{- $archive := $v.logArchive }}
{{- range list
  (list "webhook.certManager" (and $v.webhook.certManager (not $v.webhook.enabled)) "webhook.enabled")
  (list "webhook.issuerRef" (and $v.webhook.issuerRef (not $v.webhook.certManager)) "webhook.certManager")
  (list "metrics.certManager" (and $v.metrics.certManager (not $v.metrics.secure)) "metrics.secure")
  (list "metrics.issuerRef" (and $v.metrics.issuerRef (not $v.metrics.certManager)) "metrics.certManager")
  (list "progress.forAllJobs" (and $v.progress.forAllJobs (not $v.progress.enabled)) "progress.enabled")
  (list "stallStacks.enabled" (and $v.stallStacks.enabled (not $archive.enabled)) "logArchive.enabled")
  (list "logArchive.existingClaim" (and $archive.existingClaim (not $archive.enabled)) "logArchive.enabled")
  (list "logArchive.objectsSecret" (and $archive.objectsSecret (not $archive.enabled)) "logArchive.enabled")
  (list "logArchive.storageClassName" (and $archive.storageClassName (not $archive.enabled)) "logArchive.enabled")
  (list "networkPolicy.egress" (and $v.networkPolicy.egress (not $v.networkPolicy.enabled)) "networkPolicy.enabled")
  (list "networkPolicy.apiServer.to" (and $v.networkPolicy.apiServer.to (not $v.networkPolicy.egress)) "networkPolicy.egress")
  (list "networkPolicy.webhookFrom" (and $v.networkPolicy.webhookFrom (not $v.webhook.enabled)) "webhook.enabled")
}}
{{- if index . 1 }}
{{- fail (printf "%s has no effect without %s: set that, too" (index . 0) (index . 2)) }}
{{- end }}
{{- end }}
{{- if and $archive.existingClaim $archive.objectsSecret }}
{{- fail "logArchive.existingClaim has no effect with logArchive.objectsSecret, which replaces the volume: set one of them" }}
{{- end }}
{{- end }}

{{- define "tfoperator.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- define "tfoperator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "tfoperator.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name says which account to use, since serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* The rules of a role in files/rbac.yaml: (list . "name"). The names of objects in the rules are replaced by names of the release. */}}
{{- define "tfoperator.rules" -}}
{{- $root := index . 0 }}
{{- $rules := index ($root.Files.Get "files/rbac.yaml" | fromYaml) (index . 1) | toYaml }}
{{- $name := printf "  - \"%s${1}\"" (include "tfoperator.fullname" $root) }}
{{- regexReplaceAll "(?m)^  - tfoperator(-webhook-cert|-progress-cert)?$" $rules $name }}
{{- end }}

{{- define "tfoperator.subjects" -}}
- kind: ServiceAccount
  name: {{ include "tfoperator.serviceAccountName" . | quote }}
  namespace: {{ .Release.Namespace | quote }}
{{- end }}

{{/* A ClusterRole or Role and its binding: (dict "root" . "name" N "rules" TEXT "namespace" NS), NS empty for a ClusterRole.
     Empty if rbac.create is false, because then an administrator grants the rights. */}}
{{- define "tfoperator.role" -}}
{{- if .root.Values.rbac.create -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ if .namespace }}Role{{ else }}ClusterRole{{ end }}
metadata:
  name: {{ .name | quote }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- include "tfoperator.labels" .root | nindent 4 }}
rules:
{{ .rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ if .namespace }}RoleBinding{{ else }}ClusterRoleBinding{{ end }}
metadata:
  name: {{ .name | quote }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- include "tfoperator.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ if .namespace }}Role{{ else }}ClusterRole{{ end }}
  name: {{ .name | quote }}
subjects:
{{ include "tfoperator.subjects" .root }}
{{- end }}
{{- end }}

{{/* Not empty if the log archive is in a volume. */}}
{{- define "tfoperator.archiveVolume" -}}
{{- if and .Values.logArchive.enabled (not .Values.logArchive.objectsSecret) }}
{{- "claimed" }}
{{- end }}
{{- end }}

{{/* Not empty if the volume of the log archive can be mounted on only one node. */}}
{{- define "tfoperator.volumeForOne" -}}
{{- if and (include "tfoperator.archiveVolume" .) (not (has "ReadWriteMany" .Values.logArchive.accessModes)) }}
{{- if gt (int .Values.replicas) 1 }}
{{- fail "logArchive.accessModes: without ReadWriteMany the volume is for one node, so set replicas to 1" }}
{{- end }}
{{- "one" }}
{{- end }}
{{- end }}

{{- define "tfoperator.args" -}}
{{- $fullname := include "tfoperator.fullname" . }}
- --leader-elect
{{- if ne $fullname "tfoperator" }}
- --leader-elect-id={{ $fullname }}
{{- end }}
- --metrics-bind-address=:8080
- --health-probe-bind-address=:8081
- --log-format={{ .Values.logFormat }}
{{- if .Values.metrics.secure }}
- --metrics-secure
{{- if .Values.metrics.certManager }}
- --metrics-cert-dir=/etc/tfoperator/metrics
{{- end }}
{{- end }}
{{- if .Values.metrics.perJob }}
- --metrics-per-job
{{- end }}
{{- if ne (int .Values.terminationGracePeriodSeconds) 30 }}
- --shutdown-grace-period={{ sub (int .Values.terminationGracePeriodSeconds) 5 }}s
{{- end }}
{{- range .Values.namespaces }}
- --namespace={{ . }}
{{- end }}
{{- with .Values.defaultCleanPodPolicy }}
- --default-clean-pod-policy={{ . }}
{{- end }}
{{- with .Values.defaultNetwork }}
- --default-network={{ . }}
{{- end }}
{{- if .Values.exposedTensorboards }}
- --exposed-tensorboards
{{- end }}
{{- with .Values.gangSchedulerName }}
- --gang-scheduler-name={{ . }}
{{- end }}
{{- if .Values.kueue.enabled }}
- --kueue
{{- end }}
{{- if .Values.webhook.enabled }}
- --webhook-bind-address=:9443
- --webhook-shutdown-delay=5s
{{- if .Values.webhook.certManager }}
- --webhook-cert-dir=/etc/tfoperator/webhook
{{- end }}
{{- if ne $fullname "tfoperator" }}
- --webhook-service={{ $fullname }}-webhook
- --webhook-secret={{ $fullname }}-webhook-cert
{{- end }}
{{- end }}
{{- if .Values.progress.enabled }}
- --progress-bind-address=:9444
{{- if .Values.progress.forAllJobs }}
- --progress-default
{{- end }}
{{- if ne $fullname "tfoperator" }}
- --progress-service={{ $fullname }}-progress
- --progress-secret={{ $fullname }}-progress-cert
{{- end }}
{{- end }}
{{- if .Values.logArchive.enabled }}
{{- if include "tfoperator.archiveVolume" . }}
- --archive-dir=/archive
{{- end }}
- --archive-max-bytes={{ .Values.logArchive.maxBytes }}
{{- end }}
{{- if .Values.stallStacks.enabled }}
- --stall-stacks
{{- end }}
{{- if .Values.config }}
- --config=/etc/tfoperator/config/config.yaml
{{- end }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "tfoperator.volumeMounts" -}}
{{- if .Values.metrics.secure | and .Values.metrics.certManager }}
- name: metrics-cert
  mountPath: /etc/tfoperator/metrics
  readOnly: true
{{- end }}
{{- if .Values.webhook.enabled | and .Values.webhook.certManager }}
- name: webhook-cert
  mountPath: /etc/tfoperator/webhook
  readOnly: true
{{- end }}
{{- if .Values.logArchive.enabled }}
- name: archive
  mountPath: {{ ternary "/archive" "/tmp" (include "tfoperator.archiveVolume" . | not | not) }}
{{- end }}
{{- if .Values.config }}
- name: config
  mountPath: /etc/tfoperator/config
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "tfoperator.volumes" -}}
{{- $fullname := include "tfoperator.fullname" . }}
{{- if .Values.metrics.secure | and .Values.metrics.certManager }}
- name: metrics-cert
  secret:
    secretName: {{ $fullname }}-metrics-cert
    defaultMode: 0440
{{- end }}
{{- if .Values.webhook.enabled | and .Values.webhook.certManager }}
- name: webhook-cert
  secret:
    secretName: {{ $fullname }}-webhook-cert
    defaultMode: 0440
{{- end }}
{{- if .Values.logArchive.enabled }}
- name: archive
  {{- if include "tfoperator.archiveVolume" . }}
  persistentVolumeClaim:
    claimName: {{ default (printf "%s-log-archive" $fullname) .Values.logArchive.existingClaim | quote }}
  {{- else }}
  emptyDir: {sizeLimit: 2Gi}  # space for 12 logs that are read at the same time
  {{- end }}
{{- end }}
{{- if .Values.config }}
- name: config
  configMap:
    name: {{ $fullname | quote }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The security context of pods: of the operator and of `helm test`. */}}
{{- define "tfoperator.commonSecurityContext" -}}
runAsNonRoot: true
{{- with .Values.runAsUser }}
runAsUser: {{ . | int64 }}
runAsGroup: {{ . | int64 }}
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "tfoperator.podSecurityContext" -}}
{{ include "tfoperator.commonSecurityContext" . }}
{{- with .Values.runAsUser }}
{{- if or (include "tfoperator.archiveVolume" $) (and $.Values.webhook.enabled $.Values.webhook.certManager) (and $.Values.metrics.secure $.Values.metrics.certManager) }}
fsGroup: {{ . | int64 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "tfoperator.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "tfoperator.livenessProbe" -}}
httpGet:
  path: /healthz
  port: health
initialDelaySeconds: 10
periodSeconds: 10
timeoutSeconds: 5
{{- end }}

{{- define "tfoperator.readinessProbe" -}}
httpGet:
  path: /readyz
  port: health
periodSeconds: 5
timeoutSeconds: 5
{{- end }}
