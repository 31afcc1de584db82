{{/* Manifests of the program: call with (dict "root" $ "sub" <this chart>). */}}
{{- define "model-controller.manifests" -}}
{{ include "dynamo-operator.controller" (merge (dict "name" "model-controller") .) }}
{{- end -}}
