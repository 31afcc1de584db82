{{/* A copy from the chart dynamo-operator, made by `cargo xtask charts generate`. */}}
{{/* The configuration file of all programs; each reads what concerns it. */}}
{{- define "dynamo-operator.config" -}}
{{- $full := include "dynamo-operator.fullname" . -}}
{{- $global := .Values.global | default dict -}}
{{- $nats := .Values.natsAddr -}}
{{- if and (not $nats) (dig "nats" "install" false $global) -}}
{{- $nats = printf "nats://%s-nats.%s.svc.%s:4222" .Release.Name .Release.Namespace .Values.kubernetesClusterDomain -}}
{{- end -}}
{{- $etcd := .Values.etcdAddr -}}
{{- if and (not $etcd) (dig "etcd" "install" false $global) -}}
{{- $etcd = printf "%s-etcd.%s.svc.%s:2379" .Release.Name .Release.Namespace .Values.kubernetesClusterDomain -}}
{{- end -}}
apiVersion: operator.config.dynamo.nvidia.com/v1alpha1
kind: OperatorConfiguration
server:
  metrics:
    secure: {{ ternary "true" "false" (not (empty (include "dynamo-operator.secureMetrics" .))) }}
  webhook:
    port: 9443
    certProvisionMode: {{ ternary "manual" "auto" (or .Values.webhook.certManager.enabled .Values.webhook.certificateSecret.external) }}
    secretName: {{ include "dynamo-operator.certificate" . }}
    serviceName: {{ include "dynamo-operator.webhookService" . }}
leaderElection:
  enabled: true
  id: {{ include "dynamo-operator.electionId" . }}
  namespace: {{ include "dynamo-operator.leaseNamespace" . }}
{{- if include "dynamo-operator.restricted" . }}
namespace:
  restricted: {{ include "dynamo-operator.target" . | quote }}
  scope:
    {{- /* Programs of several releases are one install by their common fullnameOverride. */}}
    owner: {{ printf "%s/%s" .Release.Namespace (ternary .Release.Name (include "dynamo-operator.fullname" .) (empty .alone)) | quote }}
    leaseDuration: {{ .Values.namespaceRestriction.lease.duration }}
    leaseRenewInterval: {{ .Values.namespaceRestriction.lease.renewInterval }}
{{- end }}
dns:
  clusterDomain: {{ .Values.kubernetesClusterDomain | quote }}
orchestrators:
  grove:
    {{- if dig "grove" "enabled" false $global }}
    enabled: true
    {{- end }}
    terminationDelay: {{ .Values.dynamo.groveTerminationDelay }}
  {{- if or (dig "kai-scheduler" "enabled" false $global) }}
  kaiScheduler:
    enabled: true
  {{- end }}
  {{- if dig "volcano-scheduler" "enabled" false $global }}
  volcanoScheduler:
    enabled: true
  {{- end }}
infrastructure:
  natsAddress: {{ $nats | quote }}
  etcdAddress: {{ $etcd | quote }}
  modelExpressURL: {{ .Values.modelExpressURL | quote }}
  prometheusEndpoint: {{ .Values.dynamo.metrics.prometheusEndpoint | quote }}
  {{- with index .Subcharts "graph-controller" }}
  {{- with .Values.infrastructure }}
  {{- if .secretName }}
  secretName: {{ .secretName | quote }}
  secretNamespace: {{ .secretNamespace | default $.Release.Namespace | quote }}
  {{- end }}
  {{- end }}
  {{- end }}
ingress:
  {{- if and .Values.dynamo.istio.enabled .Values.dynamo.istio.gateway }}
  virtualServiceGateway: {{ .Values.dynamo.istio.gateway | quote }}
  {{- end }}
  {{- if .Values.dynamo.ingress.enabled }}
  controllerClassName: {{ .Values.dynamo.ingress.className | default "" | quote }}
  controllerTLSSecretName: {{ .Values.dynamo.ingress.tlsSecretName | default "" | quote }}
  {{- end }}
  hostSuffix: {{ .Values.dynamo.ingressHostSuffix | quote }}
  onlyConfigured: {{ .Values.dynamo.exposeOnlyAsConfigured }}
{{- with .Values.dynamo.serviceMesh }}
serviceMesh:
  {{- if kindIs "bool" .enabled }}
  enabled: {{ .enabled }}
  {{- end }}
  {{- /* Unset, a provider switches it on. */}}
  {{- if ne (toString .enabled) "false" }}
  provider: {{ .provider | quote }}
  istio:
    tlsMode: {{ .istio.tlsMode }}
    insecureSkipVerify: {{ .istio.insecureSkipVerify }}
    {{- with .istio.clientCertificate }}
    clientCertificate: {{ . | quote }}
    {{- end }}
    {{- with .istio.privateKey }}
    privateKey: {{ . | quote }}
    {{- end }}
    {{- with .istio.caCertificates }}
    caCertificates: {{ . | quote }}
    {{- end }}
  {{- end }}
{{- end }}
rbac:
  discoveryRoleName: {{ include "dynamo-operator.discoveryRole" . }}
{{- if not (include "dynamo-operator.restricted" .) }}
  plannerClusterRoleName: {{ $full }}-planner
  dgdrProfilingClusterRoleName: {{ $full }}-dgdr-profiling
  eppClusterRoleName: {{ $full }}-epp
{{- end }}
mpi:
  sshSecretName: {{ .Values.dynamo.mpiRun.secretName }}
  sshSecretNamespace: {{ .Release.Namespace }}
{{- if .Values.checkpoint.enabled }}
checkpoint:
  {{- toYaml .Values.checkpoint | nindent 2 }}
{{- end }}
discovery:
  backend: {{ .Values.discoveryBackend }}
gpu:
  discoveryEnabled: {{ ternary "true" "false" (not (empty (include "dynamo-operator.gpuDiscovery" .))) }}
  exporterNamespaces: {{ toJson .Values.gpuDiscovery.exporterNamespaces }}
imagePullSecretDiscovery:
  enabled: {{ .Values.imagePullSecretDiscovery.enabled }}
{{- with .Values.notifications.receivers }}
notifications:
  receivers:
    {{- toYaml . | nindent 4 }}
{{- end }}
{{- end -}}

{{/* Name of the ConfigMap: one of all programs, or of a program that is installed alone. */}}
{{- define "dynamo-operator.configName" -}}
{{- printf "%s-config" (ternary (include "dynamo-operator.fullname" .root) (include "dynamo-operator.program" (merge (dict "name" (.name | default "")) .)) (empty .root.alone)) -}}
{{- end -}}

{{- define "dynamo-operator.configMap" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dynamo-operator.labels" (dict "root" .root "name" "config") | nindent 4 }}
data:
  config.yaml: |
    {{- include "dynamo-operator.config" .root | nindent 4 }}
{{- end -}}

{{/* The part of the configuration that a program reads: only a change of it restarts its pods. Call as the program's Deployment. */}}
{{- define "dynamo-operator.configOf" -}}
{{- $all := include "dynamo-operator.config" .root | fromYaml -}}
{{- $server := pick $all.server "metrics" -}}
{{- if eq .name "lease-scope" -}}
{{- set (pick $all "leaderElection" "namespace") "server" $server | toJson -}}
{{- else if eq .name "model-controller" -}}
{{- set (pick $all "leaderElection" "namespace" "notifications") "server" $server | toJson -}}
{{- else if eq .name "webhook-server" -}}
{{- omit $all "infrastructure" "ingress" "rbac" "imagePullSecretDiscovery" "notifications" | toJson -}}
{{- else if eq .name "component-controller" -}}
{{- $infrastructure := omit $all.infrastructure "secretName" "secretNamespace" -}}
{{- set (set $all "server" $server) "infrastructure" $infrastructure | toJson -}}
{{- else -}}
{{- set $all "server" $server | toJson -}}
{{- end -}}
{{- end -}}
