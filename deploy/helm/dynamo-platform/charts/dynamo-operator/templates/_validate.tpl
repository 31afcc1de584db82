{{/* What cannot work is refused before anything is installed. Each message says what to do instead. */}}
{{- define "dynamo-operator.validate" -}}
{{- range $old, $new := dict
    "nats.enabled" "global.nats.install"
    "webhook.enabled" "webhook-server.enabled"
    "webhook.certGenerator" "nothing: the webhook server makes its certificate"
    "webhook.certificateValidity" "nothing: the webhook server renews its certificate"
    "dynamo.mpiRun.sshKeygen" "nothing: the webhook server makes the key"
    "dynamo.internalImages" "controllerManager.manager.image"
    "dynamo.enableRestrictedSecurityContext" "nothing: the operator's pods are always restricted"
    "checkpoint.readyForCheckpointFilePath" "nothing: it is no longer used" }}
{{- $parts := splitList "." $old }}
{{- $found := $.Values }}
{{- range $parts }}
{{- if kindIs "map" $found }}{{ $found = index $found . }}{{ else }}{{ $found = "" }}{{ end }}
{{- end }}
{{- if not (or (kindIs "invalid" $found) (eq (toString $found) "")) }}
{{- fail (printf "dynamo-operator.%s is gone; use %s" $old $new) }}
{{- end }}
{{- end }}
{{- if not (has .Values.discoveryBackend (list "kubernetes" "etcd")) }}
{{- fail (printf "dynamo-operator.discoveryBackend is %q; use kubernetes or etcd" (toString .Values.discoveryBackend)) }}
{{- end }}
{{- if .Values.webhook.namespaceSelector }}
{{- fail "dynamo-operator.webhook.namespaceSelector has to be empty: an object that no admission has seen may be wrong in ways that controllers do not expect" }}
{{- end }}
{{- if include "dynamo-operator.restricted" . }}
{{- if .Values.upgradeCRD }}
{{- fail "a namespace-restricted install does not own the CRDs; set dynamo-operator.upgradeCRD=false, and let the cluster-wide install or an administrator install them" }}
{{- end }}
{{- else }}
{{- if and .Values.controllerManager.leaderElection.id (ne .Values.controllerManager.leaderElection.id "dynamo.nvidia.com") }}
{{- fail "dynamo-operator.controllerManager.leaderElection.id must stay empty in a cluster-wide install: with another id, a second install would act beside this one" }}
{{- end }}
{{- if eq .Values.controllerManager.leaderElection.namespace .Release.Namespace }}
{{- fail "dynamo-operator.controllerManager.leaderElection.namespace must not be the namespace of the release: installs in other namespaces would act beside this one" }}
{{- end }}
{{- range (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "").items }}
{{- $labels := .metadata.labels | default dict }}
{{- if and (eq (index $labels "app.kubernetes.io/component" | default "") "graph-controller") (eq (index $labels "app.kubernetes.io/part-of" | default "") "dynamo-operator") (ne (index $labels "app.kubernetes.io/instance" | default "") $.Release.Name) }}
{{- fail (printf "release %q has installed the operator for the whole cluster already (ClusterRole %s); uninstall it, or set dynamo-operator.namespaceRestriction.enabled=true" (index $labels "app.kubernetes.io/instance") .metadata.name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
