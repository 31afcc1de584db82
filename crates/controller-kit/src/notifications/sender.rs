//! Posts notifications to their receivers.

use std::{fs, path::Path, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, header};
use outbound::{Limits, Outbound, Trust};

use super::{deliveries::Shipment, message::body};
use crate::settings::Receiver;

/// Limits of a request.
const LIMITS: Limits = Limits { patience: Duration::from_secs(10), longest: 64 << 10 };

/// A receiver, and the client for it.
pub struct Sender {
    receiver: Receiver,
    client: Outbound,
}

/// Why a receiver of the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("notifications.receivers[{index}]{path}: {reason}")]
pub struct ReceiverError {
    index: usize,
    path: &'static str,
    reason: String,
}

impl Sender {
    /// The client for a receiver of the configuration.
    ///
    /// # Errors
    /// If the receiver has no name, no URL or two, or unusable certificate authorities.
    pub fn new(index: usize, receiver: &Receiver) -> Result<Self, ReceiverError> {
        let invalid = |path, reason: String| ReceiverError { index, path, reason };
        if receiver.name.is_empty() {
            return Err(invalid(".name", "is required".to_owned()));
        }
        if receiver.url.is_empty() == receiver.url_file.is_none() {
            return Err(invalid("", "set one of url and urlFile".to_owned()));
        }
        if receiver.url_file.is_none() {
            Request::post(&receiver.url).body(()).map_err(|error| invalid(".url", error.to_string()))?;
        }
        let unusable = |error: &dyn std::fmt::Display| invalid(".caFile", error.to_string());
        let additional = receiver.ca_file.as_ref().map(fs::read).transpose().map_err(|error| unusable(&error))?;
        let client = Outbound::new(&Trust { additional, ..Trust::default() }).map_err(|error| unusable(&error))?;
        Ok(Self { receiver: receiver.clone(), client })
    }

    /// Name of the receiver.
    pub fn name(&self) -> &str {
        &self.receiver.name
    }

    /// Posts an event. The text of an error has nothing that is secret.
    pub async fn send(&self, shipment: &Shipment, program: &str) -> Result<(), String> {
        let answer = self.client.send(self.request(shipment, program)?, LIMITS).await;
        let status = answer.map_err(|error| error.to_string())?.status();
        if status.is_success() { Ok(()) } else { Err(format!("the receiver answered {status}")) }
    }

    fn request(&self, shipment: &Shipment, program: &str) -> Result<Request<Bytes>, String> {
        let receiver = &self.receiver;
        let url = receiver.url_file.as_deref().map(read).transpose()?;
        let (type_, body) = body(receiver.format, &shipment.object, &shipment.event, program);
        let mut request = Request::post(url.as_deref().unwrap_or(&receiver.url)).header(header::CONTENT_TYPE, type_);
        if let Some(header) = &receiver.header {
            let mut value = HeaderValue::try_from(read(&header.value_file)?)
                .map_err(|_| format!("{} is no value of a header", header.value_file.display()))?;
            value.set_sensitive(true);
            request = request.header(&header.name, value);
        }
        request.body(body.to_string().into()).map_err(|error| error.to_string())
    }
}

fn read(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_receiver_that_cannot_be_used_is_named_with_its_key() {
        for (receiver, expected) in [
            (json!({ "url": "http://a" }), "notifications.receivers[3].name: is required"),
            (json!({ "name": "a" }), "notifications.receivers[3]: set one of url and urlFile"),
            (json!({ "name": "a", "url": "http://a", "urlFile": "/f" }), "set one of url and urlFile"),
            (json!({ "name": "a", "url": "http://a b" }), "notifications.receivers[3].url: "),
            (json!({ "name": "a", "url": "http://a", "caFile": "/nowhere" }), "notifications.receivers[3].caFile: "),
        ] {
            let receiver = serde_json::from_value(receiver).unwrap();
            let Err(error) = Sender::new(3, &receiver) else { panic!("{receiver:?} is accepted") };
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
