{{/* Manifests of the program: call with (dict "root" $ "sub" <this chart>). */}}
{{- define "lease-scope.manifests" -}}
{{- $root := .root }}
{{- $sub := .sub }}
{{- if not (include "dynamo-operator.restricted" $root) }}
{{- fail "lease-scope marks the namespace of a restricted install; set namespaceRestriction.enabled=true" }}
{{- end }}
{{- $instance := printf "app.kubernetes.io/instance=%s" $root.Release.Name }}
{{- /* Releases of one program each have the name in common. */}}
{{- if $root.alone }}
{{- $instance = printf "app.kubernetes.io/name=%s" (include "dynamo-operator.name" $root) }}
{{- end }}
{{- $selector := printf "%s,app.kubernetes.io/part-of=dynamo-operator,app.kubernetes.io/component notin (lease-scope,crds)" $instance }}
{{- $version := include "dynamo-operator.version" (dict "root" $root "sub" $sub) }}
{{- $args := list (printf "--siblings=%s" $selector) (printf "--operator-version=%s" $version) }}
{{- /* One renews the marker, and the other takes over: it never lapses while a pod is replaced. */}}
{{- $strategy := dict "type" "RollingUpdate" "rollingUpdate" (dict "maxSurge" 1 "maxUnavailable" 0) }}
{{- $program := dict "root" $root "name" "lease-scope" "sub" $sub "replicas" 2 "args" $args "ports" list "strategy" $strategy }}
{{- $name := include "dynamo-operator.program" $program }}
---
{{ include "dynamo-operator.serviceAccount" $program }}
---
{{ include "dynamo-operator.role" $program }}
{{- if $root.Values.hardened }}
---
# The right that the policy of a hardened install for the whole cluster requires of who marks the namespace.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}-mark
  namespace: {{ include "dynamo-operator.target" $root }}
  labels:
    {{- include "dynamo-operator.labels" $program | nindent 4 }}
rules:
  - {apiGroups: [""], resources: [namespaces], resourceNames: [{{ include "dynamo-operator.target" $root }}], verbs: [mark]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}-mark
  namespace: {{ include "dynamo-operator.target" $root }}
  labels:
    {{- include "dynamo-operator.labels" $program | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $name }}-mark}
subjects:
  - {kind: ServiceAccount, name: {{ $name }}, namespace: {{ $root.Release.Namespace }}}
{{- end }}
{{- if include "dynamo-operator.elsewhere" $root }}
---
# The Deployments of the install are not in the namespace that is marked.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "dynamo-operator.labels" $program | nindent 4 }}
rules:
  - {apiGroups: [apps], resources: [deployments], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "dynamo-operator.labels" $program | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $name }}}
subjects:
  - {kind: ServiceAccount, name: {{ $name }}, namespace: {{ $root.Release.Namespace }}}
{{- end }}
---
{{ include "dynamo-operator.deployment" $program }}
{{ include "dynamo-operator.surroundings" $program }}
{{- end -}}
