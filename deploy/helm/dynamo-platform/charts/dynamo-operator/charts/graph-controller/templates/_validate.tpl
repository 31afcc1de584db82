{{/* A copy from the chart dynamo-operator, made by `cargo xtask charts generate`. */}}
{{/* What cannot work is refused before anything is installed. Each message says what to do instead. */}}
{{- define "dynamo-operator.validate" -}}
{{- if not (has .Values.discoveryBackend (list "kubernetes" "etcd")) }}
{{- fail (printf "dynamo-operator.discoveryBackend is %q; use kubernetes or etcd" (toString .Values.discoveryBackend)) }}
{{- end }}
{{- if .Values.webhook.namespaceSelector }}
{{- fail "dynamo-operator.webhook.namespaceSelector has to be empty: an object that no admission has seen may be wrong in ways that controllers do not expect" }}
{{- end }}
{{- if include "dynamo-operator.restricted" . }}
{{- if include "dynamo-operator.secureMetrics" . }}
{{- fail "a namespace-restricted install has no right to review tokens; leave dynamo-operator.metricsService.secure out: a NetworkPolicy lets dynamo-operator.networkPolicy.metricsFrom read metrics" }}
{{- end }}
{{- if include "dynamo-operator.upgradeCRD" . }}
{{- fail "a namespace-restricted install does not own the CRDs; leave dynamo-operator.upgradeCRD out, and let the cluster-wide install or an administrator install them" }}
{{- end }}
{{- else }}
{{- if and .Values.controllerManager.leaderElection.id (ne .Values.controllerManager.leaderElection.id "dynamo.nvidia.com") }}
{{- fail "dynamo-operator.controllerManager.leaderElection.id must stay empty in a cluster-wide install: with another id, a second install would act beside this one" }}
{{- end }}
{{- if eq .Values.controllerManager.leaderElection.namespace .Release.Namespace }}
{{- fail "dynamo-operator.controllerManager.leaderElection.namespace must not be the namespace of the release: installs in other namespaces would act beside this one" }}
{{- end }}
{{- if not .Values.allowSecondOperator }}
{{- $program := .alone | default "graph-controller" }}
{{- range (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "").items }}
{{- $labels := .metadata.labels | default dict }}
{{- /* A release of this name may be in another namespace, too. */}}
{{- $namespace := index (.metadata.annotations | default dict) "meta.helm.sh/release-namespace" | default $.Release.Namespace }}
{{- $other := or (ne (index $labels "app.kubernetes.io/instance" | default "") $.Release.Name) (ne $namespace $.Release.Namespace) }}
{{- /* Of an install for one namespace, the graph controller may have ClusterRoles too (_cluster-reads.tpl), of other names. */}}
{{- if and (hasSuffix (printf "-%s" $program) .metadata.name) (eq (index $labels "app.kubernetes.io/component" | default "") $program) (eq (index $labels "app.kubernetes.io/part-of" | default "") "dynamo-operator") $other }}
{{- fail (printf "release %q%s has installed the operator for the whole cluster already (ClusterRole %s); uninstall it, or set dynamo-operator.namespaceRestriction.enabled=true" (index $labels "app.kubernetes.io/instance") (ternary "" (printf " in namespace %q" $namespace) (eq $namespace $.Release.Namespace)) .metadata.name) }}
{{- end }}
{{- /* The role of the Go operator, where it serves the whole cluster. */}}
{{- if and (hasSuffix "-manager-role" .metadata.name) (or (contains "dynamo-operator" .metadata.name) (eq (index $labels "app.kubernetes.io/name" | default "") "dynamo-operator")) }}
{{- $release := index $labels "app.kubernetes.io/instance" | default "" }}
{{- /* An upgrade replaces the Go operator in its own release; before it, no process of it may run. */}}
{{- $replaced := and $.Release.IsUpgrade (eq (index (.metadata.annotations | default dict) "meta.helm.sh/release-name" | default "") $.Release.Name) (eq $namespace $.Release.Namespace) }}
{{- $running := false }}
{{- if $replaced }}
{{- range (lookup "apps/v1" "Deployment" $.Release.Namespace "").items }}
{{- $selector := .spec.selector.matchLabels | default dict }}
{{- if and (eq (index $selector "control-plane" | default "") "controller-manager") (eq (index $selector "app.kubernetes.io/instance" | default "") $.Release.Name) }}
{{- if or (.spec.replicas | int) ((.status | default dict).replicas | int) }}
{{- $running = true }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if $running }}
{{- fail (printf "release %q runs the Go operator; stop it first (docs/upgrade.md): kubectl scale deployment --namespace %s --selector control-plane=controller-manager,app.kubernetes.io/instance=%s --replicas=0" $.Release.Name $.Release.Namespace $.Release.Name) }}
{{- else if not $replaced }}
{{- fail (printf "release %q has installed the Go operator for the whole cluster (ClusterRole %s), and both would act on the same objects; stop and uninstall it first, nothing of users goes with it (docs/upgrade.md), or set dynamo-operator.namespaceRestriction.enabled=true to serve one namespace beside it; if it is stopped, dynamo-operator.allowSecondOperator=true goes on" $release .metadata.name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
