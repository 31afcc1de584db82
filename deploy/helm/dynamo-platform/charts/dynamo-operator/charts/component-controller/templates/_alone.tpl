{{/* A copy from the chart dynamo-operator, made by `cargo xtask charts generate`. */}}
{{/*
A program whose chart is installed by itself: the chart's own values, and beside them those of the umbrella chart that concern the
program (files/common-values.json), under the same names. Call with the context of the program's chart.
*/}}
{{- define "dynamo-operator.alone" -}}
{{- include "dynamo-operator.complete" . -}}
{{- include "dynamo-operator.fill" (dict "values" .Values "defaults" (.Files.Get "files/common-values.json" | fromJson)) -}}
{{- /* The program's own environment is added by its Deployment. */ -}}
{{- $values := set (omit .Values "env") "env" list -}}
{{- $root := dict "Values" $values "Chart" .Chart "Release" .Release "Capabilities" .Capabilities "alone" .Chart.Name -}}
{{- $_ := set $root "Subcharts" (dict .Chart.Name .) -}}
{{- include "dynamo-operator.validate" $root -}}
{{- if ne .Chart.Name "crds" }}
---
{{ include "dynamo-operator.configMap" (dict "root" $root "name" (include "dynamo-operator.configName" (dict "root" $root "name" .Chart.Name))) }}
{{- end }}
{{ include (printf "%s.manifests" .Chart.Name) (dict "root" $root "sub" .) }}
{{- if ne .Chart.Name "crds" }}
{{- $reader := printf "%s-metrics-reader" (include "dynamo-operator.program" (dict "root" $root "name" .Chart.Name)) }}
{{ include "dynamo-operator.metricsReader" (dict "root" $root "name" $reader "component" .Chart.Name) }}
{{- end }}
{{- if has .Chart.Name (list "graph-controller" "webhook-server") }}
{{ include (printf "%s.alone" .Chart.Name) $root }}
{{- end }}
{{- end -}}

{{/* Refuses a common value under the name of a program: only the umbrella chart's own value has an effect. */}}
{{- define "dynamo-operator.refuseCommonValues" -}}
{{- range $program, $sub := .Subcharts -}}
{{- $own := $sub.Files.Get "files/defaults.json" | fromJson -}}
{{- with $sub.Files.Get "files/common-values.json" -}}
{{- range $key, $common := fromJson . -}}
{{- if hasKey $own $key -}}
{{- range $inner, $_ := $common -}}
{{- if hasKey (index $sub.Values $key) $inner -}}
{{- fail (printf "dynamo-operator.%s.%s.%s has no effect there; set dynamo-operator.%s.%s" $program $key $inner $key $inner) -}}
{{- end -}}
{{- end -}}
{{- else if hasKey $sub.Values $key -}}
{{- fail (printf "dynamo-operator.%s.%s has no effect there; set dynamo-operator.%s" $program $key $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
