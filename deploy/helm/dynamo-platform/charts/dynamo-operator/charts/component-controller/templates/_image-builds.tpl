{{/* The settings of image builds as the component controller reads them; what is not set is left to its defaults. */}}
{{- define "dynamo-operator.imageBuilds" -}}
{{- $builds := .Values.imageBuilds -}}
{{- $settings := dict
  "DYNAMO_IMAGE_BUILD_ENGINE" $builds.engine
  "DYNAMO_IMAGE_BUILD_CONCURRENCY" (ternary "" $builds.concurrency (kindIs "invalid" $builds.concurrency))
  "DYNAMO_IMAGE_BUILD_TIMEOUT" $builds.timeout
  "DYNAMO_IMAGE_BUILD_MAX_TIMEOUT" $builds.maxTimeout
  "DOCKER_REGISTRY_INSECURE_HOSTS" $builds.registry.insecureHosts
  "DOCKER_REGISTRY_SERVER" $builds.registry.server
  "DOCKER_REGISTRY_DYNAMO_COMPONENTS_REPOSITORY_NAME" $builds.registry.repository
  "DOCKER_REGISTRY_SECRET_NAME" $builds.registry.secretName
  "DOCKER_REGISTRY_CA_FILE" (ternary "/etc/dynamo-registry/ca.crt" "" (not (empty $builds.registry.caConfigMap)))
  "DOCKER_REGISTRY_SECURE" (ternary "" "false" $builds.registry.secure)
  "ADD_NAMESPACE_PREFIX_TO_IMAGE_NAME" (ternary "true" "" $builds.registry.namespaceInTag)
  "ESTARGZ_ENABLED" (ternary "true" "" $builds.estargz)
  "API_STORE_ENDPOINT" $builds.apiStoreEndpoint
  "BUILDKIT_URL" $builds.buildkit.url
  "BUILDKIT_CACHE_REPO" $builds.buildkit.cacheRepository
  "KANIKO_CACHE_REPO" $builds.kaniko.cacheRepository
  "KANIKO_SNAPSHOT_MODE" $builds.kaniko.snapshotMode
  "INTERNAL_IMAGES_DYNAMO_COMPONENTS_DOWNLOADER" $builds.images.downloader
  "INTERNAL_IMAGES_KANIKO" $builds.images.kaniko
  "INTERNAL_IMAGES_BUILDKIT" $builds.images.buildkit
  "INTERNAL_IMAGES_BUILDKIT_ROOTLESS" $builds.images.buildkitRootless
  "INTERNAL_IMAGES_GOOGLE_CLOUD_SDK" $builds.images.googleCloudSdk
  "DYNAMO_IMAGE_BUILDER_NAMESPACE" $builds.defaultsNamespace
-}}
{{- range $name, $value := $settings }}
{{- with toString $value }}
- {name: {{ $name }}, value: {{ quote . }}}
{{- end }}
{{- end }}
{{- end -}}
