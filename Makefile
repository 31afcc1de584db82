# The loop in a cluster, by make: REGISTRY, NAMESPACE, REGISTRY_USERNAME and REGISTRY_PASSWORD may be set on the command line, which
# exports them. Everything else is `cargo xtask`.
.PHONY: tilt tilt-up tilt-down generate manifests sync-crds

tilt tilt-up:
	cargo xtask tilt-up

tilt-down:
	cargo xtask tilt-down

generate manifests sync-crds:
	cargo xtask crds generate
