{{/* A copy from the chart dynamo-operator, made by `cargo xtask charts generate`. */}}
{{/* Accounts and roles of the pods of graphs. */}}
{{- define "dynamo-operator.componentAccounts" -}}
{{- $full := include "dynamo-operator.fullname" . }}
{{- $labels := include "dynamo-operator.labels" (dict "root" . "name" "rbac") }}
{{- $restricted := include "dynamo-operator.restricted" . }}
{{- /* Namespaces of the pods that the values show. */}}
{{- $served := ternary (include "dynamo-operator.target" .) .Release.Namespace (not (empty $restricted)) }}
{{- $registry := .Values.dynamo.dockerRegistry }}
{{- $secret := "" }}
{{- if $registry.useKubernetesSecret }}
{{- $secret = $registry.existingSecretName | default (printf "%s-regcred" $full) }}
{{- end }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $full }}-component
  namespace: {{ $served }}
  labels:
    {{- $labels | nindent 4 }}
    nvidia.com/dynamo-component-pod: "true"
  {{- with .Values.dynamo.components.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- with $secret }}
imagePullSecrets:
  - name: {{ . }}
{{- end }}
{{- if and $registry.useKubernetesSecret (not $registry.existingSecretName) }}
{{- $server := required "dynamo-operator.dynamo.dockerRegistry.server is needed to make a pull secret" $registry.server }}
{{- if or (eq $server "docker.io") (hasPrefix "docker.io/" $server) }}
{{- $server = "https://index.docker.io/v1/" }}
{{- end }}
{{- $auth := dict "username" $registry.username "password" $registry.password "auth" (printf "%s:%s" $registry.username $registry.password | b64enc) }}
---
apiVersion: v1
kind: Secret
metadata:
  name: {{ $full }}-regcred
  namespace: {{ $served }}
  labels:
    {{- $labels | nindent 4 }}
type: kubernetes.io/dockerconfigjson
data:
  .dockerconfigjson: {{ dict "auths" (dict $server $auth) | toJson | b64enc }}
{{- end }}
{{- /*
Roles of pods that a graph runs. The controllers bind them in the namespaces of graphs; made here, because a controller that
made them would need every right in them.
*/}}
{{- $worker := list
  (dict "apiGroups" (list "discovery.k8s.io") "resources" (list "endpointslices") "verbs" (list "get" "list" "watch"))
  (dict "apiGroups" (list "nvidia.com") "resources" (list "dynamoworkermetadatas") "verbs" (list "get" "list" "watch" "create" "update" "patch" "delete")) }}
{{- $planner := concat $worker (list
  (dict "apiGroups" (list "nvidia.com") "resources" (list "dynamographdeployments") "verbs" (list "get" "list" "create" "update" "patch"))
  (dict "apiGroups" (list "nvidia.com") "resources" (list "dynamographdeploymentscalingadapters/scale") "verbs" (list "patch"))) }}
{{- if .Values.planner.powerAwareness.enabled }}
{{- $planner = append $planner (dict "apiGroups" (list "") "resources" (list "pods") "verbs" (list "list")) }}
{{- end }}
{{- $epp := concat $worker (list
  (dict "apiGroups" (list "inference.networking.x-k8s.io") "resources" (list "inferencepools" "inferenceobjectives" "inferencemodelrewrites") "verbs" (list "get" "list" "watch"))
  (dict "apiGroups" (list "inference.networking.k8s.io") "resources" (list "inferencepools") "verbs" (list "get" "list" "watch"))
  (dict "apiGroups" (list "") "resources" (list "pods") "verbs" (list "get" "list" "watch"))) }}
{{- $profiling := list
  (dict "apiGroups" (list "") "resources" (list "configmaps") "verbs" (list "create" "get" "update" "patch" "delete"))
  (dict "apiGroups" (list "") "resources" (list "pods") "verbs" (list "list" "get" "create" "delete"))
  (dict "apiGroups" (list "") "resources" (list "pods/log") "verbs" (list "get"))
  (dict "apiGroups" (list "nvidia.com") "resources" (list "dynamographdeploymentrequests") "verbs" (list "get"))
  (dict "apiGroups" (list "nvidia.com") "resources" (list "dynamographdeployments") "verbs" (list "get" "create" "delete" "list" "watch")) }}
{{- /*
Of the discovery accounts of graphs. Its name is the same in every release, and it stays when the release goes: pods of graphs that
run on have their rights by it. So a later release uses the role that an earlier one has left.
*/}}
{{- $discovery := list
  (dict "apiGroups" (list "") "resources" (list "endpoints" "pods") "verbs" (list "get" "list" "watch"))
  (dict "apiGroups" (list "discovery.k8s.io") "resources" (list "endpointslices") "verbs" (list "get" "list" "watch"))
  (dict "apiGroups" (list "nvidia.com") "resources" (list "dynamoworkermetadatas") "verbs" (list "get" "list" "watch" "create" "update" "patch" "delete")) }}
{{- $kind := ternary "Role" "ClusterRole" (not (empty $restricted)) }}
{{- $name := include "dynamo-operator.discoveryRole" . }}
{{- $there := lookup "rbac.authorization.k8s.io/v1" $kind (ternary $served "" (not (empty $restricted))) $name | default dict }}
{{- $ours := or (empty $there) (include "dynamo-operator.isOfRelease" (dict "root" . "object" $there)) }}
{{- if and (not $ours) (ne (toJson $there.rules) (toJson $discovery)) }}
{{- $where := ternary (printf " --namespace %s" $served) "" (not (empty $restricted)) }}
{{- fail (printf "%s %s grants other rights than this version does, and is of another release; let this release take it over: kubectl annotate --overwrite %s %s%s meta.helm.sh/release-name=%s meta.helm.sh/release-namespace=%s" $kind $name (lower $kind) $name $where .Release.Name .Release.Namespace) }}
{{- end }}
{{- if $ours }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: {{ $name }}
  {{- if $restricted }}
  namespace: {{ $served }}
  {{- end }}
  labels:
    {{- $labels | nindent 4 }}
  annotations:
    helm.sh/resource-policy: keep
rules:
  {{- toYaml $discovery | nindent 2 }}
{{- end }}
{{- $accounts := dict
  "planner" (dict "account" "planner-serviceaccount" "role" "planner-role" "binding" "planner-binding" "rules" $planner)
  "epp" (dict "account" "epp-serviceaccount" "role" "epp-role" "binding" "epp-binding" "rules" $epp)
  "dgdr-profiling" (dict "account" "dgdr-profiling-job" "role" "dgdr-profiling-job" "binding" "dgdr-profiling-job" "rules" $profiling) }}
{{- range $what, $it := $accounts }}
{{- if not $restricted }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $full }}-{{ $what }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  {{- toYaml $it.rules | nindent 2 }}
{{- else }}
{{- /* An operator that served the namespace before may have made the account. It stays as it is, and stays when this release goes: pods run under it. */}}
{{- $there := lookup "v1" "ServiceAccount" $served $it.account | default dict }}
{{- if or (empty $there) (include "dynamo-operator.isOfRelease" (dict "root" $ "object" $there)) }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $it.account }}
  namespace: {{ $served }}
  labels:
    {{- $labels | nindent 4 }}
  annotations:
    helm.sh/resource-policy: keep
{{- with $secret }}
imagePullSecrets:
  - name: {{ . }}
{{- end }}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $it.role }}
  namespace: {{ $served }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  {{- toYaml $it.rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $it.binding }}
  namespace: {{ $served }}
  labels:
    {{- $labels | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $it.role }}}
subjects:
  - {kind: ServiceAccount, name: {{ $it.account }}, namespace: {{ $served }}}
{{- end }}
{{- end }}
{{- end -}}
