{{/* Manifests of the program: call with (dict "root" $ "sub" <this chart>). */}}
{{- define "component-controller.manifests" -}}
{{- $env := include "dynamo-operator.imageBuilds" .sub | fromYamlArray -}}
{{- $configMaps := dict -}}
{{- with .sub.Values.imageBuilds.registry.caConfigMap -}}
{{- $configMaps = dict "dynamo-registry" . -}}
{{- end -}}
{{ include "dynamo-operator.controller" (merge (dict "name" "component-controller" "env" $env "configMaps" $configMaps) .) }}
{{- end -}}
