// Pins the image registry that tests talk to; there is no Go source of our own. Apart from ../go.mod, so that a new version of one
// builds nothing of the other anew. To change the version: `go get -tool
// github.com/google/go-containerregistry/cmd/registry@<version>`, then `go mod tidy`.
module registry

go 1.26.0

tool github.com/google/go-containerregistry/cmd/registry

require github.com/google/go-containerregistry v0.22.1 // indirect
