{{/* Manifests of the program, the only one that writes definitions: call with (dict "root" $ "sub" <this chart>). */}}
{{- define "crds.manifests" -}}
{{- $root := .root }}
{{- $sub := .sub }}
{{- if include "dynamo-operator.restricted" $root }}
{{- fail "crds writes objects of the whole cluster; set namespaceRestriction.enabled=false" }}
{{- end }}
{{- $program := dict "root" $root "name" "crds" "sub" $sub }}
{{- $name := include "dynamo-operator.program" $program }}
{{- $labels := include "dynamo-operator.labels" $program }}
{{- $owner := include "dynamo-operator.upgradeCRD" $root }}
{{- $rules := list }}
{{- range ($sub.Files.Get "files/role.yaml" | fromYaml).rules }}
{{- if $owner }}
{{- $rules = append $rules . }}
{{- else if has "customresourcedefinitions" .resources }}
{{- $rules = append $rules (merge (dict "verbs" (without .verbs "create")) .) }}
{{- end }}
{{- end }}
---
{{ include "dynamo-operator.serviceAccount" $program }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  {{- toYaml $rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  labels:
    {{- $labels | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ $name }}}
subjects:
  - {kind: ServiceAccount, name: {{ $name }}, namespace: {{ $root.Release.Namespace }}}
---
# The CA bundle for conversion, which the webhook server publishes.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  - apiGroups: [""]
    resources: [configmaps]
    resourceNames: [{{ include "dynamo-operator.webhookCA" $root }}]
    verbs: [list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $name }}}
subjects:
  - {kind: ServiceAccount, name: {{ $name }}, namespace: {{ $root.Release.Namespace }}}
---
# Rights that a user needs beside `admin` to install a release for his namespace. Bound by a cluster administrator.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ include "dynamo-operator.fullname" $root }}-namespace-installer
  labels:
    {{- $labels | nindent 4 }}
rules:
  {{- toYaml ($sub.Files.Get "files/namespace-installer.yaml" | fromYaml).rules | nindent 2 }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  replicas: 1
  strategy: {type: Recreate}
  selector:
    matchLabels:
      {{- include "dynamo-operator.selector" $program | nindent 6 }}
  template:
    metadata:
      labels:
        {{- with merge (dict) $sub.Values.podLabels $root.Values.controllerManager.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- include "dynamo-operator.podLabels" $program | nindent 8 }}
      {{- with merge (dict) $sub.Values.podAnnotations $root.Values.controllerManager.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      {{- include "dynamo-operator.pod" $program | nindent 6 }}
      containers:
        - name: crds
          image: {{ include "dynamo-operator.image" $program }}
          imagePullPolicy: {{ include "dynamo-operator.pullPolicy" $program }}
          args:
            - serve
            - --timeout={{ $sub.Values.timeoutSeconds }}
            - --health-address=0.0.0.0:8081
            - --webhook-service={{ $root.Release.Namespace }}/{{ include "dynamo-operator.webhookService" $root }}
            - --ca-config-map={{ $root.Release.Namespace }}/{{ include "dynamo-operator.webhookCA" $root }}
            {{- if not $owner }}
            - --bundle-only
            {{- end }}
            {{- with $sub.Values.args }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- with concat $root.Values.env $sub.Values.env }}
          env:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          ports:
            - {name: health, containerPort: 8081, protocol: TCP}
          livenessProbe:
            httpGet: {path: /healthz, port: health}
            initialDelaySeconds: 15
            periodSeconds: 20
          readinessProbe:
            httpGet: {path: /readyz, port: health}
            periodSeconds: 5
            timeoutSeconds: 5
          resources:
            {{- toYaml ($sub.Values.resources | default $root.Values.controllerManager.manager.resources) | nindent 12 }}
          securityContext:
            {{- toYaml $root.Values.controllerManager.manager.containerSecurityContext | nindent 12 }}
{{- end -}}
