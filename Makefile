# The loop in a cluster, by make: REGISTRY, NAMESPACE, REGISTRY_USERNAME and REGISTRY_PASSWORD may be set on the command line, which
# exports them. Everything else is `cargo xtask`.
.PHONY: tilt tilt-up tilt-down

tilt tilt-up:
	cargo xtask tilt-up

tilt-down:
	cargo xtask tilt-down
