//! Values at the edge of what can be stored, where databases part.

use crate::harness::Harness;
use crate::place::on_both;
use crate::rows::{CONSUMER, at, queued};

on_both! {
    a_lease_without_end_wakes_nobody,
}

async fn a_lease_without_end_wakes_nobody(h: Harness) {
    h.given([queued("held")]).await;
    let held = h.mail.claim_dispatch("held", CONSUMER, u64::MAX, at(1000)).await.unwrap().unwrap();
    assert_eq!(held.lease_until, Some(at(i64::MAX)));
    assert_eq!(h.mail.next_wakeup(at(1000)).await.unwrap(), None);
    assert_eq!(h.mail.reclaim_expired_leases(at(i64::MAX), 10).await.unwrap(), []);
}
