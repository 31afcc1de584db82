{{/* Manifests of the program: call with (dict "root" $ "sub" <this chart>). */}}
{{- define "webhook-server.manifests" -}}
{{- $root := .root }}
{{- $sub := .sub }}
{{- $full := include "dynamo-operator.fullname" $root }}
{{- $service := include "dynamo-operator.webhookService" $root }}
{{- $restricted := include "dynamo-operator.restricted" $root }}
{{- $ports := list (dict "name" "webhook" "containerPort" 9443 "protocol" "TCP") }}
{{- $principals := include "dynamo-operator.principals" $root | fromJsonArray | join "," }}
{{- $args := list (printf "--operator-accounts=%s" $principals) }}
{{- if not $restricted }}
{{- $args = append $args (printf "--ca-config-map=%s" (include "dynamo-operator.webhookCA" $root)) }}
{{- end }}
{{- with $root.Values.controllerManager.manager.dgdrDefaultImage }}
{{- $args = append $args (printf "--dgdr-default-image=%s" .) }}
{{- end }}
{{- $configMaps := dict }}
{{- with $root.Values.webhook.clientCAConfigMap }}
{{- $configMaps = dict "dynamo-client-ca" . }}
{{- $args = append $args "--client-ca-file=/etc/dynamo-client-ca/ca.crt" }}
{{- end }}
{{- /* Nothing may be without an answer while a new version comes. */}}
{{- $strategy := dict "type" "RollingUpdate" "rollingUpdate" (dict "maxSurge" 1 "maxUnavailable" 0) }}
{{- $program := dict "root" $root "name" "webhook-server" "sub" $sub "replicas" $sub.Values.replicas "args" $args "configMaps" $configMaps "ports" $ports "strategy" $strategy "secrets" true "grace" 110 }}
{{- $name := include "dynamo-operator.program" $program }}
{{- $labels := include "dynamo-operator.labels" $program }}
{{- /* Another issuer makes the certificate. */}}
{{- $others := or $root.Values.webhook.certManager.enabled $root.Values.webhook.certificateSecret.external }}
---
{{ include "dynamo-operator.serviceAccount" $program }}
---
{{ include "dynamo-operator.role" $program }}
---
# The certificate, which it writes where it makes it: of the Secrets of its namespace this one.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}-own
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  {{- $rules := list }}
  {{- range ($sub.Files.Get "files/own-role.yaml" | fromYaml).rules }}
  {{- if has "secrets" .resources }}
  {{- $verbs := ternary (without .verbs "create" "patch" "update") .verbs (not (empty $others)) }}
  {{- $rules = append $rules (merge (dict "resourceNames" (list (include "dynamo-operator.certificate" $root)) "verbs" $verbs) .) }}
  {{- else if has "configmaps" .resources }}
  {{- if not $restricted }}
  {{- $rules = append $rules (merge (dict "resourceNames" (list (include "dynamo-operator.webhookCA" $root))) .) }}
  {{- end }}
  {{- else }}
  {{- $rules = append $rules . }}
  {{- end }}
  {{- end }}
  {{- toYaml $rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}-own
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $name }}-own}
subjects:
  - {kind: ServiceAccount, name: {{ $name }}, namespace: {{ $root.Release.Namespace }}}
{{- $suffix := ternary (printf "-%s" $root.Release.Namespace) "" (not (empty $restricted)) }}
{{- if and $restricted (not $others) }}
---
# Webhook configurations belong to the cluster: who makes its own certificate has to set its CA in them. They are found by
# their labels, and only those of this release may be changed.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}-{{ $root.Release.Namespace }}-injector
  labels:
    {{- $labels | nindent 4 }}
rules:
  - apiGroups: [admissionregistration.k8s.io]
    resources: [validatingwebhookconfigurations, mutatingwebhookconfigurations]
    verbs: [get, list, watch]
  - apiGroups: [admissionregistration.k8s.io]
    resources: [validatingwebhookconfigurations]
    resourceNames: [{{ $full }}-validating{{ $suffix }}]
    verbs: [patch]
  - apiGroups: [admissionregistration.k8s.io]
    resources: [mutatingwebhookconfigurations]
    resourceNames: [{{ $full }}-mutating{{ $suffix }}]
    verbs: [patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}-{{ $root.Release.Namespace }}-injector
  labels:
    {{- $labels | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ $name }}-{{ $root.Release.Namespace }}-injector}
subjects:
  - {kind: ServiceAccount, name: {{ $name }}, namespace: {{ $root.Release.Namespace }}}
{{- end }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $service }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  selector:
    {{- include "dynamo-operator.selector" $program | nindent 4 }}
  ports:
    - {name: webhook, port: 443, targetPort: webhook, protocol: TCP}
---
{{ include "dynamo-operator.deployment" $program }}
{{ include "dynamo-operator.surroundings" $program }}
{{- $webhook := $root.Values.webhook }}
{{- range ($sub.Files.Get "files/configurations.yaml" | fromYaml).items }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ $full }}-{{ ternary "validating" "mutating" (eq .kind "ValidatingWebhookConfiguration") }}{{ $suffix }}
  labels:
    {{- $labels | nindent 4 }}
    nvidia.com/dynamo-operator-namespace: {{ $root.Release.Namespace }}
  {{- if $webhook.certManager.enabled }}
  annotations:
    cert-manager.io/inject-ca-from: {{ $root.Release.Namespace }}/{{ $full }}-serving-cert
  {{- end }}
webhooks:
  {{- range .webhooks }}
  {{- $client := dict "service" (dict "name" $service "namespace" $root.Release.Namespace "path" .clientConfig.service.path "port" 443) }}
  {{- if and $webhook.certificateSecret.external $webhook.caBundle (not $webhook.certManager.enabled) }}
  {{- $_ := set $client "caBundle" $webhook.caBundle }}
  {{- end }}
  {{- $_ := set . "clientConfig" $client }}
  {{- $_ := set . "failurePolicy" (ternary $webhook.podCheckpointRestoreFailurePolicy $webhook.failurePolicy (eq .name "mpodcheckpointrestore.kb.io")) }}
  {{- $_ := set . "timeoutSeconds" $webhook.timeoutSeconds }}
  {{- if $restricted }}
  {{- $_ := set . "namespaceSelector" (dict "matchLabels" (dict "kubernetes.io/metadata.name" (include "dynamo-operator.target" $root))) }}
  {{- end }}
  - {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- if $webhook.certManager.enabled }}
{{- $common := $full | trunc 56 | trimSuffix "-" }}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata:
  name: {{ $full }}-selfsigned-issuer
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  selfSigned: {}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ $full }}-root-ca
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  isCA: true
  commonName: {{ $common }}-root-ca
  secretName: {{ $full }}-root-ca-secret
  duration: {{ $webhook.certManager.certificate.rootCA.duration }}
  renewBefore: {{ $webhook.certManager.certificate.rootCA.renewBefore }}
  privateKey: {algorithm: RSA, size: 4096}
  issuerRef: {name: {{ $full }}-selfsigned-issuer, kind: Issuer}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata:
  name: {{ $full }}-ca-issuer
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  ca: {secretName: {{ $full }}-root-ca-secret}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ $full }}-serving-cert
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  commonName: {{ $common }}-webhook
  secretName: {{ include "dynamo-operator.certificate" $root }}
  duration: {{ $webhook.certManager.certificate.duration }}
  renewBefore: {{ $webhook.certManager.certificate.renewBefore }}
  dnsNames:
    - {{ $service }}
    - {{ $service }}.{{ $root.Release.Namespace }}.svc
    - {{ $service }}.{{ $root.Release.Namespace }}.svc.{{ $root.Values.kubernetesClusterDomain }}
  issuerRef: {name: {{ $full }}-ca-issuer, kind: Issuer}
{{- end }}
{{- end -}}

{{/* Manifests that the umbrella chart renders for several programs. */}}
{{- define "webhook-server.alone" -}}
{{ include "dynamo-operator.clusterReads" (dict "root" . "programs" (list "webhook-server")) }}
{{- end -}}
