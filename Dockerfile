# The images of all programs, for builds with a container engine; `cargo xtask images` builds the same without one.
#
#   docker build --target graph-controller --tag docker.io/example/graph-controller:0.1.0 .
#
# One target for each program. The first build compiles all of them; the others take them from the cache.
# Tags of the image that compiles can be moved. To name it by digest: --build-arg RUST_IMAGE=docker.io/library/rust@sha256:...
ARG RUST_IMAGE=rust:1.95-bookworm
FROM ${RUST_IMAGE} AS build
WORKDIR /operator
RUN rustup target add "$(uname -m)-unknown-linux-musl"
COPY . .
# The content of each image is the one layer of the archive that is written for it.
RUN cargo xtask images && mkdir /images && for image in target/images/*.tar; do \
      root=/images/$(basename "$image" .tar) && mkdir "$root" && \
      layer=$(tar --extract --to-stdout --file "$image" manifest.json | grep --only-matching 'blobs/sha256/[0-9a-f]*' | tail -n 1) && \
      tar --extract --to-stdout --file "$image" "$layer" | tar --extract --gzip --directory "$root" || exit 1; \
    done

FROM scratch AS crds
COPY --from=build /images/crds /
USER 65532:65532
ENTRYPOINT ["/crds"]

FROM scratch AS component-controller
COPY --from=build /images/component-controller /
USER 65532:65532
ENTRYPOINT ["/component-controller"]

FROM scratch AS model-controller
COPY --from=build /images/model-controller /
USER 65532:65532
ENTRYPOINT ["/model-controller"]

FROM scratch AS webhook-server
COPY --from=build /images/webhook-server /
USER 65532:65532
ENTRYPOINT ["/webhook-server"]

FROM scratch AS lease-scope
COPY --from=build /images/lease-scope /
USER 65532:65532
ENTRYPOINT ["/lease-scope"]

FROM scratch AS kubectl-dynamo
COPY --from=build /images/kubectl-dynamo /
USER 65532:65532
ENTRYPOINT ["/kubectl-dynamo"]

FROM scratch AS graph-controller
COPY --from=build /images/graph-controller /
USER 65532:65532
ENTRYPOINT ["/graph-controller"]
