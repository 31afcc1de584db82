{{/* A copy from the chart dynamo-operator, made by `cargo xtask charts generate`. */}}
{{/*
Manifests of a controller, whose replicas elect one that acts or share the namespaces: call with (dict "root" $ "sub" <its chart>
"name" … "args" <list> "env" <list> "configMaps" <map>).
*/}}
{{- define "dynamo-operator.controller" -}}
{{- $own := .sub.Values -}}
{{- $scaled := $own.autoscaling.enabled -}}
{{- /* Zero is a number. */ -}}
{{- $fixed := ternary .root.Values.controllerManager.replicas $own.replicas (kindIs "invalid" $own.replicas) -}}
{{- $replicas := ternary $own.autoscaling.minReplicas $fixed $scaled -}}
{{- $shards := ternary (list "--shards") list (or $scaled (gt (int $replicas) 1)) -}}
{{- $args := concat (list (printf "--concurrency=%d" (int $own.concurrency))) $shards (.args | default list) -}}
{{- /* A replica that acts alone gives its Lease back before the next one acts; that one waits for it, ready. */ -}}
{{- $strategy := dict "type" "RollingUpdate" "rollingUpdate" (dict "maxSurge" 1 "maxUnavailable" 0) -}}
{{- $settings := dict "replicas" $replicas "scaled" $scaled "args" $args "ports" list "strategy" $strategy -}}
{{- with .root.Values.notifications.secretName -}}
{{- $_ := set $settings "secretFolders" (dict "notifications" .) -}}
{{- end -}}
{{- $program := merge $settings (omit . "args") -}}
---
{{ include "dynamo-operator.serviceAccount" $program }}
---
{{ include "dynamo-operator.role" $program }}
---
{{ include "dynamo-operator.leaderElection" (merge (dict "lease" (printf "dynamo-%s" .name)) $program) }}
---
{{ include "dynamo-operator.deployment" $program }}
{{- if $scaled }}
---
{{ include "dynamo-operator.autoscaler" $program }}
{{- end }}
{{ include "dynamo-operator.surroundings" $program }}
{{- end -}}

{{/* Sets the replicas of a controller by its CPU. */}}
{{- define "dynamo-operator.autoscaler" -}}
{{- $name := include "dynamo-operator.program" . -}}
{{- $autoscaling := .sub.Values.autoscaling -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dynamo-operator.labels" . | nindent 4 }}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ $name }}}
  minReplicas: {{ $autoscaling.minReplicas }}
  maxReplicas: {{ $autoscaling.maxReplicas }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target: {type: AverageValue, averageValue: {{ $autoscaling.averageCPU }}}
{{- end -}}
