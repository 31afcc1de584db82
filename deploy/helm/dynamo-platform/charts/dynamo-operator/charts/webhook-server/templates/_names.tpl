{{/* A copy from the chart dynamo-operator, made by `cargo xtask charts generate`. */}}
{{/* Names and labels. */}}

{{- define "dynamo-operator.name" -}}
{{- default "dynamo-operator" .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "dynamo-operator.fullname" -}}
{{- $name := include "dynamo-operator.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Name of a program's objects: call with (dict "root" $ "name" "graph-controller"). */}}
{{- define "dynamo-operator.program" -}}
{{- printf "%s-%s" (include "dynamo-operator.fullname" .root | trunc 44 | trimSuffix "-") .name -}}
{{- end -}}

{{/* Name of a Service, which has no more than 63 characters: call with (dict "root" $ "name" "webhook-service"). */}}
{{- define "dynamo-operator.service" -}}
{{- $room := sub 62 (len .name) | int -}}
{{- printf "%s-%s" (include "dynamo-operator.fullname" .root | trunc $room | trimSuffix "-") .name -}}
{{- end -}}

{{- define "dynamo-operator.webhookService" -}}
{{- include "dynamo-operator.service" (dict "root" . "name" "webhook-service") -}}
{{- end -}}

{{/* ConfigMap with the CA bundle for conversion. */}}
{{- define "dynamo-operator.webhookCA" -}}
{{- printf "%s-webhook-ca" (include "dynamo-operator.fullname" .) -}}
{{- end -}}

{{/* Role of the discovery accounts of graphs, in all releases. */}}
{{- define "dynamo-operator.discoveryRole" -}}
dynamo-operator-discovery
{{- end -}}

{{/* Whether a live object is of this release: call with (dict "root" $ "object" …). */}}
{{- define "dynamo-operator.isOfRelease" -}}
{{- $notes := dig "metadata" "annotations" dict .object -}}
{{- if and (eq (index $notes "meta.helm.sh/release-name" | default "") .root.Release.Name) (eq (index $notes "meta.helm.sh/release-namespace" | default "") .root.Release.Namespace) }}true{{ end -}}
{{- end -}}

{{- define "dynamo-operator.selector" -}}
app.kubernetes.io/name: {{ include "dynamo-operator.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end -}}

{{/* Labels of pods: no version, so that an upgrade of the chart restarts only pods whose own image or settings changed. */}}
{{- define "dynamo-operator.podLabels" -}}
{{ include "dynamo-operator.selector" . }}
app.kubernetes.io/part-of: dynamo-operator
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end -}}

{{- define "dynamo-operator.labels" -}}
{{ include "dynamo-operator.selector" . }}
app.kubernetes.io/part-of: dynamo-operator
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "dynamo-operator.restricted" -}}
{{- if .Values.namespaceRestriction.enabled }}true{{ end -}}
{{- end -}}

{{/* Whether the release owns the definitions: the value, else whether it serves the whole cluster. */}}
{{- define "dynamo-operator.upgradeCRD" -}}
{{- $set := .Values.upgradeCRD -}}
{{- if ternary $set (empty (include "dynamo-operator.restricted" .)) (kindIs "bool" $set) }}true{{ end -}}
{{- end -}}

{{/* Whether the webhook server runs: the value, else whether the release serves the whole cluster. Call with the umbrella's context. */}}
{{- define "dynamo-operator.webhooks" -}}
{{- $set := (index .Subcharts "webhook-server").Values.enabled -}}
{{- if ternary $set (empty (include "dynamo-operator.restricted" .)) (kindIs "bool" $set) }}true{{ end -}}
{{- end -}}

{{/* Whether nodes are looked at for GPUs: what the value says, else in an install for the whole cluster. */}}
{{- define "dynamo-operator.gpuDiscovery" -}}
{{- $given := .Values.gpuDiscovery.enabled -}}
{{- if ternary $given (empty (include "dynamo-operator.restricted" .)) (kindIs "bool" $given) }}true{{ end -}}
{{- end -}}

{{/* Whether metrics are for clients with a token: what the value says, else in an install for the whole cluster. */}}
{{- define "dynamo-operator.secureMetrics" -}}
{{- $set := .Values.metricsService.secure -}}
{{- if ternary $set (empty (include "dynamo-operator.restricted" .)) (kindIs "bool" $set) }}true{{ end -}}
{{- end -}}

{{/* The only namespace that is served. */}}
{{- define "dynamo-operator.target" -}}
{{- default .Release.Namespace .Values.namespaceRestriction.targetNamespace -}}
{{- end -}}

{{/* Whether the namespace of the release is not the one that is served: then other releases may be there, too. */}}
{{- define "dynamo-operator.elsewhere" -}}
{{- if and (include "dynamo-operator.restricted" .) (ne (include "dynamo-operator.target" .) .Release.Namespace) }}true{{ end -}}
{{- end -}}

{{/* Secret with the certificate of the webhook server. One of another issuer has the usual name, wherever it serves. */}}
{{- define "dynamo-operator.certificate" -}}
{{- $own := printf "%s-webhook-server-cert" (include "dynamo-operator.fullname" .) -}}
{{- .Values.webhook.certificateSecret.name | default (ternary $own "webhook-server-cert" (and (not (empty (include "dynamo-operator.elsewhere" .))) (not .Values.webhook.certificateSecret.external))) -}}
{{- end -}}

{{/* Where the leader election Leases are. */}}
{{- define "dynamo-operator.leaseNamespace" -}}
{{- if include "dynamo-operator.restricted" . -}}
{{- include "dynamo-operator.target" . -}}
{{- else -}}
{{- default "kube-system" .Values.controllerManager.leaderElection.namespace -}}
{{- end -}}
{{- end -}}

{{- define "dynamo-operator.electionId" -}}
{{- default "dynamo.nvidia.com" .Values.controllerManager.leaderElection.id -}}
{{- end -}}

{{/* Image of a program: call with (dict "root" $ "name" … "sub" <its subchart>). */}}
{{- define "dynamo-operator.image" -}}
{{- $common := .root.Values.controllerManager.manager.image -}}
{{- $own := .sub.Values.image -}}
{{- $repository := $own.repository | default (printf "%s/%s" ($common.repository | trimSuffix "/") .name) -}}
{{- $tag := include "dynamo-operator.imageTag" . -}}
{{- printf "%s%s%s" $repository (ternary "@" ":" (hasPrefix "sha256:" $tag)) $tag -}}
{{- end -}}

{{- define "dynamo-operator.imageTag" -}}
{{- include "dynamo-operator.tag" (.sub.Values.image.tag | default .root.Values.controllerManager.manager.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}

{{/* Version of a program: the tag of its image, or the chart's where the image is named by digest. */}}
{{- define "dynamo-operator.version" -}}
{{- $tag := include "dynamo-operator.imageTag" . -}}
{{- ternary .root.Chart.AppVersion $tag (hasPrefix "sha256:" $tag) -}}
{{- end -}}

{{/* A tag, which may look like a number: of those in files Helm makes fractions, and writes large ones with an exponent. */}}
{{- define "dynamo-operator.tag" -}}
{{- if and (kindIs "float64" .) (eq (floor .) (float64 .)) -}}
{{- int64 . -}}
{{- else -}}
{{- toString . -}}
{{- end -}}
{{- end -}}

{{- define "dynamo-operator.pullPolicy" -}}
{{- .sub.Values.image.pullPolicy | default .root.Values.controllerManager.manager.image.pullPolicy -}}
{{- end -}}

{{/* Usernames of the ServiceAccounts of the operator, as a list in JSON: those that admission lets do what users may not. */}}
{{- define "dynamo-operator.principals" -}}
{{- $users := list -}}
{{- range $name := list "graph-controller" "component-controller" "model-controller" "webhook-server" -}}
{{- $account := include "dynamo-operator.program" (dict "root" $ "name" $name) -}}
{{- $users = append $users (printf "system:serviceaccount:%s:%s" $.Release.Namespace $account) -}}
{{- end -}}
{{- $users | toJson -}}
{{- end -}}

{{/* Whether ValidatingAdmissionPolicies limit the operator: what the value says, else in an install for the whole cluster where they are served. */}}
{{- define "dynamo-operator.admissionPolicies" -}}
{{- $set := .Values.admissionPolicies.enabled -}}
{{- $default := and (empty (include "dynamo-operator.restricted" .)) (semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version) -}}
{{- if ternary $set $default (kindIs "bool" $set) }}true{{ end -}}
{{- end -}}
