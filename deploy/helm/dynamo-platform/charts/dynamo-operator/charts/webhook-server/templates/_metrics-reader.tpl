{{/* A copy from the chart dynamo-operator, made by `cargo xtask charts generate`. */}}
{{/*
The right to read metrics, for the account of Prometheus: bind it, unless a role of its own has the right. Call with
(dict "root" $ "name" <name of the role> "component" <label>).
*/}}
{{- define "dynamo-operator.metricsReader" -}}
{{- if include "dynamo-operator.secureMetrics" .root }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .name }}
  labels:
    {{- include "dynamo-operator.labels" (dict "root" .root "name" .component) | nindent 4 }}
rules:
  - nonResourceURLs: [/metrics]
    verbs: [get]
{{- end }}
{{- end -}}
