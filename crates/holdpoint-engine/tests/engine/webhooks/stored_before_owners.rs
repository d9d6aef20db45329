//! A webhook stored by a version without owners: it is delivered and depends on no key.

use holdpoint_engine::WebhookOwner;
use holdpoint_engine::core::webhook::SubscriptionState;

use super::{WebhookEnv, ok};
use crate::peer::Peer;
use crate::test_database::{TestDatabase, on_both, schema};
use crate::test_env::tenant;

on_both! {
    a_stored_webhook_has_no_owner_and_is_delivered,
}

const WEBHOOK: &str = "wh_01a1ea609a467336a365b3fbe464a91d";
const SECRET: &str = "abbd1d2d9a84b6b98099a672ec467a93c434cb21112f12320a524df37fa4c91a";
/// The secret, sealed for the webhook with the key of these tests.
const SEALED: &str = "s1.qGx+ZL87BTY9OIlJgvDZemafICqjNFvxfmXuWr0FKA2sQHKogeN8myPylcpycVYoREhlWlAskibhUFbYmvKtfRpi/\
    etqGf8Ijsyu32yBzfolqL1ej3iDKGd7etc";

async fn a_stored_webhook_has_no_owner_and_is_delivered(database: TestDatabase) {
    let peer = Peer::with_replies([ok()]).await;
    database.execute(&schema(&database, 17)).await.unwrap();
    let url = peer.url("/hook");
    let rows = format!(
        "INSERT INTO webhooks (tenant_id, webhook_id, url, events, tags, mode, ordered, retry, secret, fingerprint, state,
            breaker, mark, created_ms, updated_ms)
        VALUES ('{}', '{WEBHOOK}', '{url}', '[\"run.started\"]', '[]', 'durable', 1,
            '{{\"maxAttempts\":10,\"backoff\":\"exponential\",\"baseMs\":60000,\"maxMs\":21600000}}', '{SEALED}',
            '1d3e5ba1', 'active', '{{\"inARow\":0,\"failed\":false}}', 'm', 1800000000000, 1800000000000);
        UPDATE webhook_revision SET revision = 1;
        INSERT INTO schema_versions (version) VALUES {};",
        tenant(),
        (1..=17).map(|version| format!("({version})")).collect::<Vec<_>>().join(", ")
    );
    database.execute(&rows).await.unwrap();
    let mut hooks = WebhookEnv::with(database, |settings| settings).await;
    let hook = hooks.env.engine.webhooks().get(&tenant(), WEBHOOK).await.unwrap();
    assert_eq!((hook.state, &hook.owner, hook.reason), (SubscriptionState::Active, &None, None));
    assert_eq!(hook.old_secret, None);
    hooks.env.start("gated").await;
    assert_eq!(hooks.deliver().await, 1);
    assert_eq!(peer.header("Test-Secret").pop().flatten().as_deref(), Some(SECRET));
    let engine = &hooks.env.engine;
    engine.webhooks().pause(&tenant(), WEBHOOK, None).await.unwrap();
    let owner = WebhookOwner { principal: "ann".into(), key_id: "key_ann".into(), lineage: "key_ann".into() };
    let resumed = engine.webhooks().resume(&tenant(), WEBHOOK, Some(owner.clone()), None).await.unwrap();
    assert_eq!(resumed.owner, Some(owner));
}
