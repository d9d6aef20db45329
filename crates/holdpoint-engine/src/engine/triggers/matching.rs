//! The triggers that an external event matches.

use holdpoint_core::RunId;
use holdpoint_core::trigger::TriggerOccurrence;
use serde::{Deserialize, Serialize};

use super::firing::new_delivery;
use crate::engine::Engine;
use crate::error::Error;
use crate::store::arrivals::{Arrival, ArrivalKey};
use crate::store::trigger_deliveries::TriggerDelivery;
use crate::store::triggers;

/// The run that an event starts through a trigger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggeredRun {
    /// The trigger.
    pub trigger: String,
    /// The delivery, which is the cause of the run.
    pub delivery: String,
    /// The id of the run. The run exists once the delivery is delivered.
    pub run: RunId,
}

impl From<&TriggerDelivery> for TriggeredRun {
    fn from(delivery: &TriggerDelivery) -> Self {
        let (trigger, id) = (delivery.trigger.clone(), delivery.id.clone());
        Self { trigger, delivery: id, run: delivery.run.clone() }
    }
}

impl Engine {
    /// Returns the deliveries that an event causes. They are stored in the commit that ends the matching of the event.
    pub(in crate::engine) async fn deliveries_of_event(
        &self,
        key: &ArrivalKey,
        arrival: &Arrival,
    ) -> Result<Vec<TriggerDelivery>, Error> {
        let Some(event) = &arrival.event else { return Ok(Vec::new()) };
        let found = triggers::of_event(self.db(), &key.tenant, &event.event_type).await?;
        let occurrence = TriggerOccurrence::Event { event, received: arrival.received };
        let matching = found.iter().filter(|trigger| trigger.spec.matches(event));
        matching
            .map(|trigger| new_delivery(trigger, &occurrence, Some(&arrival.sent_by), self.now()))
            .collect()
    }
}
