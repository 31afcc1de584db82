// Pins other projects whose CustomResourceDefinitions tests install; there is no Go source of our own, and none of theirs is built.
// To change a version: write it here, then `go mod download -json <module>@<version>` in this directory.
module apis

go 1.26.0

require sigs.k8s.io/lws v0.9.0

require github.com/ai-dynamo/grove/operator/api v0.1.0-alpha.12-rc1
