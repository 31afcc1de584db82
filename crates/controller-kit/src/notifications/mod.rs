//! Notifications of failing objects, to HTTP endpoints that only the operator's configuration names.
//!
//! [`plan`] computes which event is due, from the status alone. A reconcile offers it to the [`Notifier`], runs again
//! until it is delivered, and then records it in the status: nothing is lost if the process ends in between.

mod deliveries;
mod plan;

use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};
use serde_json::Value;
use tokio::time::Instant;
use tracing::{info, warn};

use self::deliveries::{Deliveries, Sender, Shipment};
pub use self::{
    deliveries::{Delivery, ReceiverError},
    plan::{NOTIFIED, RESOLVED},
};
use crate::{metrics::Metrics, settings::Notifications, sync::locked};

/// Notifies the receivers of the configuration. Cheap to clone.
#[derive(Clone)]
pub struct Notifier(Arc<NotifierInner>);

struct NotifierInner {
    program: &'static str,
    senders: Vec<Sender>,
    deliveries: Mutex<Deliveries>,
    sent: Family<DeliveryLabels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeliveryLabels {
    receiver: String,
    accepted: bool,
}

impl Notifier {
    /// A notifier for these receivers; `None` if there are none.
    ///
    /// # Errors
    /// If a receiver of the configuration cannot be used.
    pub fn new(
        program: &'static str,
        settings: &Notifications,
        metrics: &Metrics,
    ) -> Result<Option<Self>, ReceiverError> {
        let senders = settings.receivers.iter().enumerate().map(|(index, receiver)| Sender::new(index, receiver));
        let senders: Vec<_> = senders.collect::<Result<_, _>>()?;
        if senders.is_empty() {
            return Ok(None);
        }
        let sent = Family::default();
        metrics.register(|registry| {
            registry.register("notifications", "Attempts to deliver a notification, by receiver", Family::clone(&sent));
        });
        let deliveries = Mutex::new(Deliveries::new());
        Ok(Some(Self(Arc::new(NotifierInner { program, senders, deliveries, sent }))))
    }

    /// Adds the delivery record to a computed status, and delivers the event that is due. While an event is pending,
    /// the object has to be reconciled again.
    pub(crate) fn notify(
        &self,
        object: &ObjectReference,
        live: &Value,
        status: &mut Value,
        now: Timestamp,
    ) -> Delivery {
        plan::carry_over(status, live);
        let Some(event) = plan::due(status, object.uid.as_deref().unwrap_or_default()) else { return Delivery::Done };
        let delivery = locked(&self.0.deliveries).offer(object, &event, Instant::now());
        match delivery {
            Delivery::Done => plan::record(status, &event, now),
            Delivery::Pending(_) => self.send_waiting(),
        }
        delivery
    }

    /// Sends as many events as there are places.
    fn send_waiting(&self) {
        loop {
            let next = locked(&self.0.deliveries).start();
            let Some(shipment) = next else { return };
            let notifier = self.clone();
            tokio::spawn(async move { notifier.send(shipment).await });
        }
    }

    async fn send(self, mut shipment: Shipment) {
        for (index, sender) in self.0.senders.iter().enumerate() {
            if shipment.accepted.contains(&index) {
                continue;
            }
            let outcome = sender.send(&shipment, self.0.program).await;
            let labels = DeliveryLabels { receiver: sender.name().to_owned(), accepted: outcome.is_ok() };
            self.0.sent.get_or_create(&labels).inc();
            let event = &shipment.event;
            match outcome {
                Ok(()) => {
                    info!(receiver = sender.name(), event = event.id, reason = event.reason, "sent notification");
                    shipment.accepted.insert(index);
                }
                Err(error) => {
                    warn!(receiver = sender.name(), event = event.id, error, "failed to send notification");
                }
            }
        }
        let all = shipment.accepted.len() == self.0.senders.len();
        locked(&self.0.deliveries).finish(shipment, all, Instant::now());
        self.send_waiting();
    }
}
