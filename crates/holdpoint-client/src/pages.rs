//! Lists that the server returns in pages.

use holdpoint_api::{agents, events, interrupts, mailbox, pending, runs, triggers, webhooks};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::request::{Reply, Request};

/// A page of a list, with the cursor of the next one.
pub trait ListPage: Serialize + DeserializeOwned {
    /// An entry of the list.
    type Item;

    /// Returns the entries of this page.
    fn items(&mut self) -> &mut Vec<Self::Item>;

    /// Returns the cursor of the next page, or None on the last page.
    fn next_cursor(&self) -> Option<&str>;
}

macro_rules! pages {
    ($($page:ty, $items:ident: $item:ty;)*) => {$(
        impl ListPage for $page {
            type Item = $item;

            fn items(&mut self) -> &mut Vec<$item> {
                &mut self.$items
            }

            fn next_cursor(&self) -> Option<&str> {
                self.next_cursor.as_deref()
            }
        }
    )*};
}

pages! {
    agents::AgentList, agents: agents::ListedAgent;
    agents::MessageList, messages: agents::Message;
    agents::ThreadRuns, runs: agents::ThreadRun;
    events::ThreadEvents, events: events::ThreadEvent;
    interrupts::InterruptHistory<'static>, interrupts: interrupts::InterruptRecord<'static>;
    mailbox::DispatchList, dispatches: mailbox::Dispatch;
    pending::PendingInterrupts<'static>, interrupts: pending::PendingInterrupt<'static>;
    runs::RunList, runs: runs::RunSummary;
    webhooks::DeadLetters, deliveries: webhooks::DeadLetter;
    webhooks::DeliveryList, deliveries: webhooks::Delivery;
    webhooks::WebhookEvents, events: webhooks::WebhookEvent;
    triggers::TriggerList, triggers: triggers::Trigger;
    triggers::TriggerDeliveryList, deliveries: triggers::TriggerDelivery;
    webhooks::WebhookList, webhooks: webhooks::Webhook;
}

impl<T: ListPage> Request<T> {
    /// Sets the maximum number of entries in one page. The default is 100.
    pub fn page_size(mut self, entries: usize) -> Self {
        self.page_size = entries;
        self
    }

    /// Reads pages until `limit` entries are collected or the list ends. The result is one page with all entries; it
    /// has a cursor if the list has more.
    pub async fn collect(self, limit: usize) -> Result<Reply<T>, Error> {
        let mut reply = self.page(limit, None).reply().await?;
        let mut pages = 1;
        while let Some(cursor) = reply.value.next_cursor().map(str::to_owned) {
            let missing = limit.saturating_sub(reply.value.items().len());
            if missing == 0 {
                break;
            }
            let mut next = self.page(missing, Some(&cursor)).reply().await?;
            // A page can be empty, because the server limits the search for one page. An empty page whose cursor is
            // unchanged is an error of the server.
            if next.value.items().is_empty() && next.value.next_cursor() == Some(cursor.as_str()) {
                break;
            }
            let mut items = std::mem::take(reply.value.items());
            items.append(next.value.items());
            *next.value.items() = items;
            reply = next;
            pages += 1;
        }
        if pages > 1 {
            reply.text = serde_json::to_string(&reply.value).unwrap_or_default();
        }
        Ok(reply)
    }

    fn page(&self, limit: usize, cursor: Option<&str>) -> Self {
        let page = holdpoint_api::Page {
            limit: u64::try_from(limit.min(self.page_size)).ok(),
            cursor: cursor.map(str::to_owned),
        };
        self.clone().query(&page)
    }
}
