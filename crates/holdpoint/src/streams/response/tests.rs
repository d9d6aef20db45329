//! Streams end with the credential that opened them.

use std::sync::Arc;

use futures_util::stream;
use holdpoint_core::TenantId;
use holdpoint_engine::{ApiKey, Engine, Location, Options};
use tokio::sync::watch;

use super::*;
use crate::app::{App, AppState};
use crate::auth::{Caller, stored_key};

const SOON: Duration = Duration::from_millis(20);
const NEVER: Duration = Duration::from_secs(600);

struct GuardFixture {
    app: App,
    key: ApiKey,
    _stop: watch::Sender<bool>,
    _folder: tempfile::TempDir,
}

impl GuardFixture {
    async fn new(lifetime_ms: Option<u64>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("holdpoint.db"));
        let engine = Engine::open(crate::extensions::add_default(Options::new(location).manual_worker()))
            .await
            .unwrap();
        let fresh = stored_key("secret", TenantId::parse("default").unwrap(), engine.now()).unwrap();
        let key = ApiKey { expires_at: lifetime_ms.map(|ms| engine.now().plus_ms(ms)), ..fresh };
        assert!(engine.keys().add(&key, None).await.unwrap());
        let (stop, stopping) = watch::channel(false);
        Self { app: Arc::new(AppState::new(engine, stopping)), key, _stop: stop, _folder: folder }
    }

    fn guard(&self, every: Duration) -> CredentialGuard {
        Caller(Arc::new(self.key.clone()), None).guard(&self.app).checking_every(every)
    }

    /// Revokes the key in the store, as another node does.
    async fn revoke(&self) {
        assert!(self.app.engine.keys().revoke(&self.key.tenant, &self.key.key_id, None).await.unwrap());
    }
}

fn silent_stream(guard: CredentialGuard) -> GuardedFrames {
    GuardedFrames::new(guard, stream::pending(), comment)
}

async fn remaining_frames(guarded: GuardedFrames) -> Vec<Bytes> {
    guarded.into_stream().collect().await
}

#[tokio::test]
async fn a_silent_stream_ends_after_its_key_was_revoked_at_another_node() {
    let fixture = GuardFixture::new(None).await;
    let stream = silent_stream(fixture.guard(SOON));
    fixture.revoke().await;
    assert_eq!(remaining_frames(stream).await, [":key_revoked this API key was revoked\n\n"]);
}

#[tokio::test]
async fn a_busy_stream_ends_after_its_key_was_revoked() {
    let fixture = GuardFixture::new(None).await;
    let busy = stream::repeat(Bytes::from_static(b"data: {}\n\n"));
    let mut stream = GuardedFrames::new(fixture.guard(SOON), busy, comment);
    assert_eq!(stream.next().await.unwrap(), "data: {}\n\n");
    fixture.revoke().await;
    assert!(remaining_frames(stream).await.last().unwrap().starts_with(b":key_revoked "));
}

#[tokio::test]
async fn a_revocation_at_this_node_ends_a_stream_before_its_next_check() {
    let fixture = GuardFixture::new(None).await;
    let stream = silent_stream(fixture.guard(NEVER));
    fixture.revoke().await;
    fixture.app.keys.clear();
    assert!(remaining_frames(stream).await[0].starts_with(b":key_revoked "));
}

#[tokio::test]
async fn a_stream_ends_when_its_key_expires() {
    let fixture = GuardFixture::new(Some(50)).await;
    let caller = Caller(Arc::new(fixture.key.clone()), None);
    assert!(
        remaining_frames(silent_stream(caller.guard(&fixture.app))).await[0].starts_with(b":key_expired ")
    );
}

#[tokio::test]
async fn a_client_that_did_not_read_gets_no_frame_after_the_revocation() {
    let fixture = GuardFixture::new(None).await;
    let busy = stream::repeat(Bytes::from_static(b"data: {}\n\n"));
    let stream = GuardedFrames::new(fixture.guard(Duration::ZERO), busy, comment);
    fixture.revoke().await;
    assert_eq!(remaining_frames(stream).await.len(), 1, "only the reason is sent");
}

#[tokio::test]
async fn a_long_poll_ends_when_its_key_is_revoked() {
    let fixture = GuardFixture::new(None).await;
    let guard = fixture.guard(SOON);
    fixture.revoke().await;
    let ended = guard.during(std::future::pending::<Result<(), ApiError>>()).await.unwrap_err();
    assert_eq!(ended.body()["error"], "key_revoked");
    let done = fixture.guard(NEVER).during(async { Ok(7) }).await;
    assert_eq!(done.unwrap(), 7, "the result of work that ends first is returned");
}

#[tokio::test]
async fn a_silent_stream_sends_keepalives_between_its_frames() {
    let fixture = GuardFixture::new(None).await;
    let frames = stream::once(async { Bytes::from_static(b"data: {}\n\n") }).chain(stream::pending());
    let mut stream = GuardedFrames::new(fixture.guard(NEVER), frames, comment);
    stream.keepalive_after = Duration::from_millis(1);
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.push(stream.next().await.unwrap());
    }
    assert_eq!(seen, ["data: {}\n\n", ":keepalive\n\n", ":keepalive\n\n"]);
}

#[tokio::test]
async fn a_thousand_streams_of_one_key_share_the_query_of_their_check() {
    let fixture = GuardFixture::new(None).await;
    let before = fixture.app.keys.queries();
    let mut guards: Vec<CredentialGuard> = (0..1000).map(|_| fixture.guard(Duration::ZERO)).collect();
    let checks = guards.iter_mut().map(CredentialGuard::check_if_due);
    for checked in futures_util::future::join_all(checks).await {
        checked.unwrap();
    }
    let queries = fixture.app.keys.queries() - before;
    assert!(queries < 100, "{queries} queries for 1000 checks");
}
