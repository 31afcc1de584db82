//! Images: the user changes the image of the workers, and the nodes cannot pull it.

use serde_json::json;

use super::{
    fault::{Fault, Step, fault, main, pod},
    kubelet::Report,
};

const POD: &str = "Pod/chat-decode-";
const WORDS: &str = "cannot be pulled";

pub fn rows() -> Vec<Fault> {
    vec![
        fault("image tag missing", "an image that the registry does not have")
            .image(Report::pull(
                "failed to pull and unpack image \"{image}\": failed to resolve reference \"{image}\": {image}: not found",
            ))
            .is("ImageNotFound", POD, "not found", "correct name and tag"),
        fault("image missing, said in an event only", "the same by a kubelet that names the cause in its event")
            .image(
                Report::backing_off().event(
                    "Failed",
                    "Failed to pull image \"{image}\": rpc error: code = NotFound desc = failed to pull and unpack \
                     image \"{image}\": failed to resolve reference \"{image}\": {image}: not found",
                ),
            )
            .is("ImageNotFound", POD, "Back-off pulling image", "push the image"),
        fault("image of another architecture", "an image that is built for arm64 only")
            .image(Report::pull(
                "failed to pull and unpack image \"{image}\": no match for platform in manifest: not found",
            ))
            .is("ImageArchitecture", POD, "no match for platform", "kubernetes.io/arch"),
        fault("image name invalid", "an image name with capital letters")
            .step(Step::Nodes(Report::waiting(
                "InvalidImageName",
                "Failed to apply default image tag \"{image}\": couldn't parse image name \"{image}\": invalid \
                 reference format: repository name (Engine) must be lowercase",
            )))
            .edit(|graph| main(graph)["image"] = json!("registry.example.com/Engine:2"))
            .is("ImageNameInvalid", POD, "must be lowercase", "correct the name of the image"),
        fault("image never pulled", "imagePullPolicy Never, and an image that no node has")
            .step(Step::Nodes(Report::waiting(
                "ErrImageNeverPull",
                "Container image \"{image}\" is not present with pull policy of Never",
            )))
            .edit(|graph| main(graph)["imagePullPolicy"] = json!("Never"))
            .is("ImageNeverPulled", POD, "pull policy of Never", "IfNotPresent"),
        fault("registry requires a login", "an image of a private registry, without a pull secret")
            .image(Report::pull(
                "failed to pull and unpack image \"{image}\": failed to resolve reference \"{image}\": failed to \
                 authorize: failed to fetch anonymous token: unexpected status from GET request to \
                 https://registry.example.com/token: 401 Unauthorized",
            ))
            .is("RegistryLogin", POD, "401 Unauthorized", "imagePullSecrets"),
        fault("pull secret missing", "imagePullSecrets that name a Secret which does not exist")
            .step(Step::Nodes(
                Report::pull(
                    "failed to pull and unpack image \"{image}\": failed to resolve reference \"{image}\": pull access \
                     denied, repository does not exist or may require authorization: server message: \
                     insufficient_scope: authorization failed",
                )
                .event(
                    "FailedToRetrieveImagePullSecret",
                    "Unable to retrieve some image pull secrets (registry); attempting to pull the image may not \
                     succeed.",
                ),
            ))
            .edit(|graph| pod(graph)["imagePullSecrets"] = json!([{ "name": "registry" }]))
            .is("PullSecretMissing", "Secret/registry", WORDS, "create the Secret registry"),
        fault("registry unknown", "an image whose registry has no address")
            .image(Report::pull(
                "failed to pull and unpack image \"{image}\": failed to resolve reference \"{image}\": failed to do \
                 request: Head \"https://registry.example.com/v2/engine/manifests/2\": dial tcp: lookup \
                 registry.example.com on 10.96.0.10:53: no such host",
            ))
            .is("RegistryUnreachable", POD, "no such host", "the nodes reach the registry"),
        fault("registry down", "an image whose registry refuses connections")
            .image(Report::pull(
                "failed to pull and unpack image \"{image}\": failed to resolve reference \"{image}\": failed to do \
                 request: Head \"https://registry.example.com/v2/engine/manifests/2\": dial tcp 10.0.0.9:443: connect: \
                 connection refused",
            ))
            .is("RegistryUnreachable", POD, "connection refused", "the nodes reach the registry"),
        fault("certificate of the registry", "an image whose registry has a certificate of a private CA")
            .image(Report::pull(
                "failed to pull and unpack image \"{image}\": failed to resolve reference \"{image}\": failed to do \
                 request: Head \"https://registry.example.com/v2/engine/manifests/2\": tls: failed to verify \
                 certificate: x509: certificate signed by unknown authority",
            ))
            .is("RegistryCertificate", POD, "x509", "trust the CA of the registry"),
        fault("rate limit of the registry", "more pulls than the registry allows")
            .image(Report::pull(
                "failed to pull and unpack image \"{image}\": failed to resolve reference \"{image}\": unexpected status \
                 from HEAD request to https://registry.example.com/v2/engine/manifests/2: 429 Too Many Requests",
            ))
            .is("RegistryRateLimit", POD, "429 Too Many Requests", "mirror"),
        fault("registry without TLS", "an image whose registry serves HTTP")
            .image(Report::pull(
                "failed to pull and unpack image \"{image}\": failed to resolve reference \"{image}\": failed to do \
                 request: Head \"https://registry.example.com/v2/engine/manifests/2\": http: server gave HTTP response \
                 to HTTPS client",
            ))
            .is("RegistryWithoutTls", POD, "HTTP response to HTTPS client", "container runtime"),
    ]
}
