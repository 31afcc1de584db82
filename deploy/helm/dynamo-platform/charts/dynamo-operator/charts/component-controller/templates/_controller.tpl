{{/* A copy from the chart dynamo-operator, made by `cargo xtask charts generate`. */}}
{{/*
Manifests of a controller, which elects a leader: call with (dict "root" $ "sub" <its chart> "name" … "args" <list> "env" <list>
"configMaps" <map>).
*/}}
{{- define "dynamo-operator.controller" -}}
{{- $own := .sub.Values -}}
{{- /* Zero is a number. */ -}}
{{- $replicas := ternary .root.Values.controllerManager.replicas $own.replicas (kindIs "invalid" $own.replicas) -}}
{{- $args := concat (list (printf "--concurrency=%d" (int $own.concurrency))) (.args | default list) -}}
{{- /* A new pod waits, ready, until the old one has given its lease back. */ -}}
{{- $strategy := dict "type" "RollingUpdate" "rollingUpdate" (dict "maxSurge" 1 "maxUnavailable" 0) -}}
{{- $settings := dict "replicas" $replicas "args" $args "ports" list "strategy" $strategy -}}
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
{{ include "dynamo-operator.surroundings" $program }}
{{- end -}}
