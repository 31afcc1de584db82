{{/* A copy from the chart dynamo-operator, made by `cargo xtask charts generate`. */}}
{{/*
One program of the operator: call with (dict "root" $ "name" … "sub" <its subchart> "args" <list> "env" <list> "ports" <list>
"strategy" <map> "replicas" <int> "scaled" <whether an autoscaler sets them> "readiness" <path> "configMaps" <map of ConfigMaps by the folder of /etc they are seen in>
"secretFolders" <the same of Secrets>).
*/}}
{{- define "dynamo-operator.deployment" -}}
{{- $fullname := include "dynamo-operator.program" . -}}
{{- $manager := .root.Values.controllerManager -}}
{{- $sub := .sub.Values -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $fullname }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dynamo-operator.labels" . | nindent 4 }}
spec:
  {{- if not .scaled }}
  replicas: {{ .replicas }}
  {{- end }}
  strategy:
    {{- toYaml .strategy | nindent 4 }}
  selector:
    matchLabels:
      {{- include "dynamo-operator.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- $labels := merge (dict) $sub.podLabels $manager.podLabels }}
        {{- with $labels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- include "dynamo-operator.podLabels" . | nindent 8 }}
      annotations:
        checksum/config: {{ include "dynamo-operator.configOf" . | sha256sum }}
        kubectl.kubernetes.io/default-container: {{ .name }}
        {{- with merge (dict) $sub.podAnnotations $manager.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      {{- include "dynamo-operator.pod" . | nindent 6 }}
      terminationGracePeriodSeconds: {{ .grace | default 30 }}
      containers:
        - name: {{ .name }}
          image: {{ include "dynamo-operator.image" . }}
          imagePullPolicy: {{ include "dynamo-operator.pullPolicy" . }}
          args:
            - --config=/etc/dynamo-operator/config.yaml
            {{- range .args }}
            - {{ . | quote }}
            {{- end }}
            {{- with $sub.args }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          env:
            {{- with concat .root.Values.env $sub.env (.env | default list) }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
            - name: POD_NAMESPACE
              valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
          ports:
            - {name: metrics, containerPort: 8080, protocol: TCP}
            - {name: health, containerPort: 8081, protocol: TCP}
            {{- range .ports }}
            - {{ toJson . }}
            {{- end }}
          livenessProbe:
            httpGet: {path: /healthz, port: health}
            initialDelaySeconds: 15
            periodSeconds: 20
          readinessProbe:
            httpGet: {path: /readyz, port: health}
            periodSeconds: 5
            timeoutSeconds: 5
          resources:
            {{- toYaml ($sub.resources | default $manager.manager.resources) | nindent 12 }}
          securityContext:
            {{- toYaml $manager.manager.containerSecurityContext | nindent 12 }}
          volumeMounts:
            - {name: operator-config, mountPath: /etc/dynamo-operator, readOnly: true}
            {{- range $folder, $configMap := .configMaps }}
            - {name: {{ $folder }}, mountPath: /etc/{{ $folder }}, readOnly: true}
            {{- end }}
            {{- range $folder, $secret := .secretFolders }}
            - {name: {{ $folder }}, mountPath: /etc/{{ $folder }}, readOnly: true}
            {{- end }}
      volumes:
        - name: operator-config
          configMap: {name: {{ include "dynamo-operator.configName" . }}}
        {{- range $folder, $configMap := .configMaps }}
        - name: {{ $folder }}
          configMap: {name: {{ quote $configMap }}}
        {{- end }}
        {{- range $folder, $secret := .secretFolders }}
        - name: {{ $folder }}
          secret: {secretName: {{ quote $secret }}}
        {{- end }}
{{- end -}}

{{/*
What all pods of the operator have: who they are, where they run, what they may not. Their ServiceAccount has the name of the
program, or the one that "account" says.
*/}}
{{- define "dynamo-operator.pod" -}}
{{- $manager := .root.Values.controllerManager -}}
{{- $sub := .sub.Values -}}
serviceAccountName: {{ .account | default (include "dynamo-operator.program" .) }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with $sub.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $sub.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $sub.tolerations | default $manager.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $sub.affinity | default $manager.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if gt (int (.replicas | default 1)) 1 }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "dynamo-operator.selector" . | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end -}}

{{- define "dynamo-operator.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "dynamo-operator.program" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dynamo-operator.labels" . | nindent 4 }}
  {{- with merge (dict) .sub.Values.serviceAccount.annotations .root.Values.controllerManager.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* Who may act in leader election: a Role that names the elected Lease and those of members. */}}
{{- define "dynamo-operator.leaderElection" -}}
{{- $lease := printf "%s.%s" .lease (include "dynamo-operator.electionId" .root) -}}
{{- $name := printf "%s-election" (include "dynamo-operator.program" .) -}}
{{- $namespace := include "dynamo-operator.leaseNamespace" .root -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ $namespace }}
  labels:
    {{- include "dynamo-operator.labels" . | nindent 4 }}
rules:
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames:
      - {{ $lease }}
      {{- range until 8 }}
      - {{ printf "%s-member-%d" $lease . }}
      {{- end }}
    verbs: [get, list, watch, update]
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [create]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ $namespace }}
  labels:
    {{- include "dynamo-operator.labels" . | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $name }}}
subjects:
  - {kind: ServiceAccount, name: {{ include "dynamo-operator.program" . }}, namespace: {{ .root.Release.Namespace }}}
{{- end -}}

{{/*
The role that a program needs (files/role.yaml, printed by the program itself), in the whole cluster or in the one namespace
that is served. Secrets are left out unless image pull secrets are to be found, but for the one with the MPI key and the one with which images
of builds are looked for; so is the list of nodes where GPUs are not looked for, and
the review of tokens where metrics need none. ClusterRoles that it may bind and webhook configurations that it may change have the names of this release,
but for the role of discovery accounts, which is one for all releases (a Role, for one namespace); for one namespace, the other roles are bound below
(_component-accounts.tpl).
*/}}
{{- define "dynamo-operator.role" -}}
{{- $restricted := include "dynamo-operator.restricted" .root -}}
{{- $name := include "dynamo-operator.program" . -}}
{{- $rules := list -}}
{{- $file := ternary "files/served-role.yaml" "files/role.yaml" (and (eq .name "webhook-server") (not (empty $restricted))) -}}
{{- range (.sub.Files.Get $file | fromYaml).rules -}}
{{- $resources := .resources -}}
{{- if $restricted -}}
{{- /* A Role grants no right to objects of the cluster, and who installs it may not have that right. */ -}}
{{- $resources = without $resources "clustertopologybindings" "deviceclasses" "nodes" "queues" -}}
{{- end -}}
{{- if and (has "" .apiGroups) (not $.root.Values.imagePullSecretDiscovery.enabled) (not $.secrets) -}}
{{- if and (eq $.name "graph-controller") (has "secrets" $resources) $.root.Values.dynamo.mpiRun.secretName -}}
{{- /* Whether a namespace has the MPI key; no other Secret is read. An empty name in a rule would mean requests without a name. */ -}}
{{- $named := dict "apiGroups" (list "") "resources" (list "secrets") "resourceNames" (list $.root.Values.dynamo.mpiRun.secretName) "verbs" (list "get" "list" "watch") -}}
{{- $rules = append $rules $named -}}
{{- end -}}
{{- with and (eq $.name "component-controller") (has "secrets" $resources) $.sub.Values.imageBuilds.registry.secretName -}}
{{- /* With it, images of builds are looked for. */ -}}
{{- $rules = append $rules (dict "apiGroups" (list "") "resources" (list "secrets") "resourceNames" (list .) "verbs" (list "get")) -}}
{{- end -}}
{{- $resources = without $resources "secrets" -}}
{{- end -}}
{{- if and (has "nodes" $resources) (not (include "dynamo-operator.gpuDiscovery" $.root)) -}}
{{- /* Nodes are listed for their GPUs only. */ -}}
{{- $rules = append $rules (dict "apiGroups" .apiGroups "resources" (list "nodes") "verbs" (without .verbs "list")) -}}
{{- $resources = without $resources "nodes" -}}
{{- end -}}
{{- if not (include "dynamo-operator.secureMetrics" $.root) -}}
{{- /* Clients of metrics are not reviewed. */ -}}
{{- $resources = without $resources "tokenreviews" "subjectaccessreviews" -}}
{{- end -}}
{{- $rule := merge (dict "resources" $resources) . -}}
{{- if and (eq $.name "webhook-server") .resourceNames (has "secrets" $resources) -}}
{{- if $.root.Values.dynamo.mpiRun.secretName -}}
{{- $_ := set $rule "resourceNames" (list $.root.Values.dynamo.mpiRun.secretName) -}}
{{- else -}}
{{- $resources = without $resources "secrets" -}}
{{- $_ := set $rule "resources" $resources -}}
{{- end -}}
{{- end -}}
{{- $shared := has (include "dynamo-operator.discoveryRole" $.root) (.resourceNames | default list) -}}
{{- if and $shared $restricted -}}
{{- $_ := set $rule "resources" (list "roles") -}}
{{- end -}}
{{- /* Programs print the names of an install that is called dynamo-operator. */ -}}
{{- if and .resourceNames (not $shared) (or (has "bind" .verbs) (has "admissionregistration.k8s.io" .apiGroups)) -}}
{{- $names := list -}}
{{- range .resourceNames -}}
{{- $names = append $names (printf "%s-%s" (include "dynamo-operator.fullname" $.root) (trimPrefix "dynamo-operator-" .)) -}}
{{- end -}}
{{- $_ := set $rule "resourceNames" $names -}}
{{- end -}}
{{- if and $resources (or $shared (not (and $restricted (has "bind" .verbs)))) -}}
{{- $rules = append $rules $rule -}}
{{- end -}}
{{- end -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ ternary "Role" "ClusterRole" (not (empty $restricted)) }}
metadata:
  name: {{ $name }}
  {{- if $restricted }}
  namespace: {{ include "dynamo-operator.target" .root }}
  {{- end }}
  labels:
    {{- include "dynamo-operator.labels" . | nindent 4 }}
rules:
  {{- toYaml $rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ ternary "RoleBinding" "ClusterRoleBinding" (not (empty $restricted)) }}
metadata:
  name: {{ $name }}
  {{- if $restricted }}
  namespace: {{ include "dynamo-operator.target" .root }}
  {{- end }}
  labels:
    {{- include "dynamo-operator.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ ternary "Role" "ClusterRole" (not (empty $restricted)) }}
  name: {{ $name }}
subjects:
  - {kind: ServiceAccount, name: {{ $name }}, namespace: {{ .root.Release.Namespace }}}
{{- end -}}

{{/* Service and ServiceMonitor for metrics, PodDisruptionBudget, NetworkPolicy: each where it is enabled. */}}
{{- define "dynamo-operator.surroundings" -}}
{{- $fullname := include "dynamo-operator.program" . -}}
{{- $metrics := .root.Values.metricsService -}}
{{- $enabled := $metrics.enabled -}}
{{- $served := .root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1" -}}
{{- if and $metrics.ports (ne (toString $enabled) "false") }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ include "dynamo-operator.service" (dict "root" .root "name" (printf "%s-metrics" .name)) }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dynamo-operator.labels" . | nindent 4 }}
spec:
  type: {{ $metrics.type }}
  selector:
    {{- include "dynamo-operator.selector" . | nindent 4 }}
  ports:
    {{- toYaml $metrics.ports | nindent 4 }}
{{- if or $enabled (and (kindIs "invalid" $enabled) $served) }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ $fullname }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dynamo-operator.labels" . | nindent 4 }}
    {{- with $metrics.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- include "dynamo-operator.selector" . | nindent 6 }}
  endpoints:
    - port: {{ (first $metrics.ports).name }}
      path: /metrics
      interval: 15s
      {{- if include "dynamo-operator.secureMetrics" .root }}
      scheme: https
      bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
      tlsConfig: {insecureSkipVerify: true}
      {{- end }}
{{- end }}
{{- end }}
{{- if and (gt (int .replicas) 1) .sub.Values.pdb.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $fullname }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dynamo-operator.labels" . | nindent 4 }}
spec:
  minAvailable: 1
  selector:
    matchLabels:
      {{- include "dynamo-operator.selector" . | nindent 6 }}
{{- end }}
{{- if .sub.Values.networkPolicy.enabled }}
{{- $closed := or .root.Values.hardened (not (include "dynamo-operator.secureMetrics" .root)) }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ $fullname }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dynamo-operator.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "dynamo-operator.selector" . | nindent 6 }}
  policyTypes: [Ingress]
  ingress:
    - ports:
        - {port: metrics, protocol: TCP}
      {{- if $closed }}
      from:
        {{- toYaml .root.Values.networkPolicy.metricsFrom | nindent 8 }}
      {{- else }}
        - {port: health, protocol: TCP}
      {{- end }}
    {{- with .ports }}
    - ports:
        {{- range . }}
        - {port: {{ .name }}, protocol: TCP}
        {{- end }}
    {{- end }}
    {{- if and $closed (not .root.Values.hardened) }}
    - ports:
        - {port: health, protocol: TCP}
    {{- end }}
{{- end }}
{{- end -}}
