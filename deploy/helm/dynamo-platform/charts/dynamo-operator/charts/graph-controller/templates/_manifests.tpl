{{/* Manifests of the program: call with (dict "root" $ "sub" <this chart>). */}}
{{- define "graph-controller.manifests" -}}
{{- $program := merge (dict "name" "graph-controller") . -}}
{{- $args := list -}}
{{- with .root.Values.controllerManager.manager.dgdrDefaultImage -}}
{{- $args = append $args (printf "--dgdr-default-image=%s" .) -}}
{{- end -}}
{{- /* The program that runs beside profilers is the same. */ -}}
{{- $args = append $args (printf "--operator-image=%s" (include "dynamo-operator.image" $program)) -}}
{{- $args = append $args (printf "--operator-image-pull-policy=%s" (include "dynamo-operator.pullPolicy" $program)) -}}
{{ include "dynamo-operator.controller" (merge (dict "args" $args) $program) }}
{{- if .sub.Values.infrastructure.secretName }}
---
{{ include "dynamo-operator.infrastructureSecret" $program }}
{{- end }}
{{- end -}}

{{/* Manifests that the umbrella chart renders whether or not this program is enabled: accounts of the pods of graphs. */}}
{{- define "graph-controller.alone" -}}
{{ include "dynamo-operator.componentAccounts" . }}
{{ include "dynamo-operator.clusterReads" (dict "root" . "programs" (list "graph-controller")) }}
{{- end -}}
