{{/* The right to read the one Secret with what connects to NATS and etcd, wherever it is. */}}
{{- define "dynamo-operator.infrastructureSecret" -}}
{{- $name := printf "%s-infrastructure" (include "dynamo-operator.program" .) -}}
{{- $secret := .sub.Values.infrastructure -}}
{{- $namespace := $secret.secretNamespace | default .root.Release.Namespace -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ $namespace }}
  labels:
    {{- include "dynamo-operator.labels" . | nindent 4 }}
rules:
  - apiGroups: [""]
    resources: [secrets]
    resourceNames: [{{ $secret.secretName | quote }}]
    verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ $namespace }}
  labels:
    {{- include "dynamo-operator.labels" . | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $name }}}
subjects:
  - {kind: ServiceAccount, name: {{ include "dynamo-operator.program" . }}, namespace: {{ .root.Release.Namespace }}}
{{- end -}}
