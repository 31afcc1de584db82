//! Any bytes as the answers of a registry and of a token server, and as a docker configuration: a redirect stays on its
//! host, and a login goes to its registry only.

use bytes::Bytes;
use component_controller::image_build::{
    image::ImageName,
    observe::registry::answer::{Challenge, login, manifest_answer, on_same_host, redirect, token, token_address},
};
use http::{HeaderMap, HeaderValue, Response, Uri, header};
use rendering::{RegistryHost, RegistryHosts};

const ADDRESS: &str = "https://registry.example:5000/v2/team/chat/manifests/v1";

/// The fuzz target.
pub fn run(data: &[u8]) {
    let Some((status, rest)) = data.split_first_chunk::<2>() else { return };
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let (line, body) = (&rest[..end], Bytes::copy_from_slice(rest.get(end + 1..).unwrap_or_default()));
    let address = Uri::from_static(ADDRESS);

    if let Ok(value) = HeaderValue::from_bytes(line) {
        let headers = HeaderMap::from_iter([(header::WWW_AUTHENTICATE, value.clone())]);
        if let Some(Challenge::Bearer { realm, service }) = Challenge::of(&headers)
            && let Some((server, token_uri)) = token_address(&realm, service.as_deref(), "team/chat")
            && let Ok(token_uri) = token_uri.parse::<Uri>()
        {
            assert_eq!((server.scheme(), server.authority()), (token_uri.scheme(), token_uri.authority()), "{realm}");
        }
        let status = 100 + u16::from_le_bytes(*status) % 500;
        for status in [status, 200, 307, 401, 404] {
            let answer = Response::builder().status(status).header(header::LOCATION, value.clone()).body(body.clone());
            let Ok(answer) = answer else { continue };
            let _ = manifest_answer(&answer);
            if let Some(next) = redirect(&answer).and_then(|next| on_same_host(&address, next)) {
                assert_eq!((next.scheme(), next.authority()), (address.scheme(), address.authority()));
            }
        }
    }
    let _ = token(&body);
    let _ = RegistryHosts::parse(&body);
    let name = String::from_utf8_lossy(line);
    if let Ok(named) = ImageName::read(name.to_string()) {
        let _ = login(&body, &RegistryHost::of_image(&named.image));
    }
}
