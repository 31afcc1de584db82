{{/*
Made by `cargo xtask charts generate`. Puts what replaces null into the values of this chart and of those in it. Every template that
is not a part of another one begins with it.
*/}}
{{- define "CHART.complete" -}}
{{- include "CHART.fill" (dict "values" .Values "defaults" (.Files.Get "files/defaults.json" | fromJson)) -}}
{{- range $inner := .Subcharts -}}
{{- include "CHART.complete" $inner -}}
{{- end -}}
{{- end -}}

{{- define "CHART.fill" -}}
{{- range $key, $default := .defaults -}}
{{- $value := index $.values $key -}}
{{- if kindIs "invalid" $value -}}
{{- $_ := set $.values $key $default -}}
{{- else if and (kindIs "map" $value) (kindIs "map" $default) -}}
{{- include "CHART.fill" (dict "values" $value "defaults" $default) -}}
{{- end -}}
{{- end -}}
{{- end -}}
