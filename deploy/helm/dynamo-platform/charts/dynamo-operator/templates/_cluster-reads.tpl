{{/*
Cluster-scoped reads of an install for one namespace, where the values enable them: call with (dict "root" $ "programs" <list>).
*/}}
{{- define "dynamo-operator.clusterReads" -}}
{{- $root := .root }}
{{- $programs := .programs }}
{{- if include "dynamo-operator.restricted" $root }}
{{- $full := include "dynamo-operator.fullname" $root }}
{{- $graphs := dict "root" $root "name" "graph-controller" }}
{{- if and (has "graph-controller" $programs) (include "dynamo-operator.gpuDiscovery" $root) }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $full }}-{{ $root.Release.Namespace }}-gpu-discovery
  labels:
    {{- include "dynamo-operator.labels" $graphs | nindent 4 }}
rules:
  - {apiGroups: [""], resources: [nodes], verbs: [list]}
  - {apiGroups: [""], resources: [pods], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $full }}-{{ $root.Release.Namespace }}-gpu-discovery
  labels:
    {{- include "dynamo-operator.labels" $graphs | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ $full }}-{{ $root.Release.Namespace }}-gpu-discovery}
subjects:
  - {kind: ServiceAccount, name: {{ include "dynamo-operator.program" $graphs }}, namespace: {{ $root.Release.Namespace }}}
{{- end }}
{{- if $root.Values.namespaceRestriction.clusterReads }}
{{- range $program, $rules := dict
  "graph-controller" (dict "" (list "nodes") "grove.io" (list "clustertopologybindings") "scheduling.run.ai" (list "queues"))
  "webhook-server" (dict "grove.io" (list "clustertopologybindings")) }}
{{- if has $program $programs }}
{{- $reader := dict "root" $root "name" $program }}
{{- $name := printf "%s-%s-cluster-reader" (include "dynamo-operator.program" $reader) $root.Release.Namespace }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  labels:
    {{- include "dynamo-operator.labels" $reader | nindent 4 }}
rules:
  {{- range $group, $resources := $rules }}
  - {apiGroups: [{{ $group | quote }}], resources: {{ toJson $resources }}, verbs: [get]}
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  labels:
    {{- include "dynamo-operator.labels" $reader | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ $name }}}
subjects:
  - {kind: ServiceAccount, name: {{ include "dynamo-operator.program" $reader }}, namespace: {{ $root.Release.Namespace }}}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
