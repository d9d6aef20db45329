//! Browser sessions and sign-in links: expiry, revocation and dependent credentials.

use std::sync::atomic::Ordering;

use holdpoint_engine::core::Timestamp;
use holdpoint_engine::{ApiKey, BrowserSession, CredentialLimits, Dependence, Sessions};

use crate::test_database::on_both;
use crate::test_env::{NOON, TestEnv, tenant};

on_both! {
    a_used_session_is_extended_up_to_a_week,
    a_session_can_be_revoked_only_by_its_key,
    a_sign_in_link_works_once_and_until_it_expires,
    a_session_ends_at_the_limit_of_its_link,
    an_invalid_link_costs_no_commit,
    a_revoked_key_cannot_sign_in,
    expired_sessions_are_deleted,
    revoking_a_session_revokes_the_keys_and_sessions_made_over_it,
    a_revoked_session_cannot_create_keys_or_links,
    credentials_that_depend_on_several_sessions_are_rejected_after_one_is_revoked,
    a_sign_out_with_a_concurrent_new_key_leaves_no_active_key,
}

const HOUR: i64 = 3_600_000;

pub(crate) async fn key(env: &TestEnv, name: &str) -> ApiKey {
    let key = fresh_key(name);
    assert!(env.engine.keys().add(&key, None).await.unwrap());
    key
}

pub(crate) fn fresh_key(name: &str) -> ApiKey {
    ApiKey {
        key_id: format!("key_{name}"),
        lineage: format!("key_{name}"),
        key_hash: format!("hash of {name}"),
        tenant: tenant(),
        principal: name.to_owned(),
        roles: Vec::new(),
        groups: Vec::new(),
        scopes: Vec::new(),
        created_at: Timestamp(NOON),
        revoked_at: None,
        expires_at: None,
        test: false,
        depends_on: Dependence::default(),
    }
}

fn ending(at: Timestamp) -> CredentialLimits {
    CredentialLimits { ends_at: Some(at), ..CredentialLimits::default() }
}

/// Returns the limits of credentials that are made over the session.
fn over(session: &BrowserSession) -> CredentialLimits {
    CredentialLimits { ends_at: Some(session.ends_at), depends_on: session.dependents() }
}

pub(crate) fn made_over(session: &BrowserSession, name: &str) -> ApiKey {
    ApiKey { depends_on: session.dependents(), ..fresh_key(name) }
}

async fn a_used_session_is_extended_up_to_a_week(env: TestEnv) {
    let (engine, key) = (&env.engine, key(&env, "ann").await);
    let mut session = engine.sessions().add(&key, "s1", "t1").await.unwrap();
    assert_eq!(session.expires_at, Timestamp(NOON + 12 * HOUR));
    env.clock.advance(60_000);
    assert_eq!(
        engine.sessions().record_use(session.clone()).await.unwrap(),
        session,
        "a use after a minute does not change the session"
    );
    for _ in 0..15 {
        env.clock.advance(11 * HOUR);
        session = engine.sessions().record_use(session).await.unwrap();
        let (stored, of) = engine.sessions().get_by_hash("t1").await.unwrap().unwrap();
        assert_eq!((&stored, &of), (&session, &key));
        assert!(stored.expires_at <= Timestamp(NOON + 7 * 24 * HOUR));
        if engine.now() < Timestamp(NOON + 6 * 24 * HOUR) {
            assert_eq!(stored.expires_at, engine.now().plus_ms(Sessions::IDLE_MS));
        }
    }
    assert_eq!(session.expires_at, Timestamp(NOON + 7 * 24 * HOUR));
    assert_eq!(engine.sessions().get_by_hash("t2").await.unwrap(), None);
}

async fn a_session_can_be_revoked_only_by_its_key(env: TestEnv) {
    let engine = &env.engine;
    let (ann, bob) = (key(&env, "ann").await, key(&env, "bob").await);
    let first = engine.sessions().add(&ann, "s1", "t1").await.unwrap();
    env.clock.advance(HOUR);
    let second = engine.sessions().add(&ann, "s2", "t2").await.unwrap();
    engine.sessions().add(&bob, "s3", "t3").await.unwrap();
    let listed = engine.sessions().list(&tenant(), &ann.key_id, 10).await.unwrap();
    assert_eq!(listed, [second.clone(), first], "newest first");
    assert!(!engine.sessions().revoke(&tenant(), &bob.key_id, "s1").await.unwrap());
    assert!(engine.sessions().revoke(&tenant(), &ann.key_id, "s1").await.unwrap());
    let (revoked, _) = engine.sessions().get_by_hash("t1").await.unwrap().unwrap();
    assert_eq!(revoked.revoked_at, Some(engine.now()));
    assert_eq!(engine.sessions().list(&tenant(), &ann.key_id, 10).await.unwrap(), [second]);
    env.clock.advance(HOUR);
    engine.sessions().record_use(revoked.clone()).await.unwrap();
    let (after, _) = engine.sessions().get_by_hash("t1").await.unwrap().unwrap();
    assert_eq!(after, revoked, "a revoked session is not extended");
    env.clock.advance(12 * HOUR);
    assert_eq!(engine.sessions().list(&tenant(), &ann.key_id, 10).await.unwrap(), []);
}

async fn a_sign_in_link_works_once_and_until_it_expires(env: TestEnv) {
    let (engine, key) = (&env.engine, key(&env, "ann").await);
    engine.sessions().add_link(&key.key_id, "link", &CredentialLimits::default()).await.unwrap();
    let other = env.second_engine(|options| options).await;
    let both = tokio::join!(
        engine.sessions().sign_in_by_link("link", "s1", "t1"),
        other.sessions().sign_in_by_link("link", "s2", "t2")
    );
    let both = [both.0.unwrap(), both.1.unwrap()];
    assert_eq!(both.iter().flatten().count(), 1, "one of two concurrent uses");
    assert_eq!(engine.sessions().sign_in_by_link("link", "s3", "t3").await.unwrap(), None);
    assert_eq!(engine.sessions().sign_in_by_link("none", "s4", "t4").await.unwrap(), None);
    engine.sessions().add_link(&key.key_id, "late", &CredentialLimits::default()).await.unwrap();
    env.clock.advance(i64::try_from(Sessions::LINK_MS).unwrap());
    assert_eq!(engine.sessions().sign_in_by_link("late", "s5", "t5").await.unwrap(), None);
    assert_eq!(engine.sessions().list(&tenant(), &key.key_id, 10).await.unwrap().len(), 1);
    other.close().await;
}

async fn a_session_ends_at_the_limit_of_its_link(env: TestEnv) {
    let (engine, key) = (&env.engine, key(&env, "ann").await);
    let end = Timestamp(NOON + 20 * HOUR);
    engine.sessions().add_link(&key.key_id, "link", &ending(end)).await.unwrap();
    let (mut session, _) = engine.sessions().sign_in_by_link("link", "s1", "t1").await.unwrap().unwrap();
    assert_eq!((session.expires_at, session.ends_at), (Timestamp(NOON + 12 * HOUR), end));
    for _ in 0..3 {
        env.clock.advance(6 * HOUR);
        session = engine.sessions().record_use(session).await.unwrap();
    }
    assert_eq!((session.expires_at, session.ends_at), (end, end), "use does not extend it beyond its end");
    assert_eq!(engine.sessions().get_by_hash("t1").await.unwrap().unwrap().0, session);
    let soon = engine.now().plus_ms(60_000);
    let expires_at = engine.sessions().add_link(&key.key_id, "last", &ending(soon)).await.unwrap();
    let (last, _) = engine.sessions().sign_in_by_link("last", "s2", "t2").await.unwrap().unwrap();
    assert_eq!((expires_at, last.expires_at, last.ends_at), (Some(soon), soon, soon));
}

async fn an_invalid_link_costs_no_commit(env: TestEnv) {
    let (engine, key) = (&env.engine, key(&env, "ann").await);
    engine.sessions().add_link(&key.key_id, "link", &CredentialLimits::default()).await.unwrap();
    assert!(engine.sessions().sign_in_by_link("link", "s1", "t1").await.unwrap().is_some());
    let before = engine.counters().commits.load(Ordering::SeqCst);
    for link in ["link", "none", ""] {
        assert_eq!(engine.sessions().sign_in_by_link(link, "s2", "t2").await.unwrap(), None);
    }
    assert_eq!(engine.counters().commits.load(Ordering::SeqCst), before);
}

async fn a_revoked_key_cannot_sign_in(env: TestEnv) {
    let (engine, key) = (&env.engine, key(&env, "ann").await);
    engine.sessions().add_link(&key.key_id, "link", &CredentialLimits::default()).await.unwrap();
    engine.sessions().add(&key, "s0", "t0").await.unwrap();
    assert!(engine.keys().revoke(&tenant(), &key.key_id, None).await.unwrap());
    assert_eq!(engine.sessions().sign_in_by_link("link", "s1", "t1").await.unwrap(), None);
    let (_, of) = engine.sessions().get_by_hash("t0").await.unwrap().unwrap();
    assert_eq!(of.revoked_at, Some(engine.now()), "the session returns the current key");
}

async fn expired_sessions_are_deleted(env: TestEnv) {
    let (engine, key) = (&env.engine, key(&env, "ann").await);
    engine.sessions().add(&key, "s1", "t1").await.unwrap();
    engine.sessions().add_link(&key.key_id, "link", &CredentialLimits::default()).await.unwrap();
    env.clock.advance(11 * HOUR);
    engine.sessions().add(&key, "s2", "t2").await.unwrap();
    engine.worker().tidy().await;
    assert!(engine.sessions().get_by_hash("t1").await.unwrap().is_some());
    env.clock.advance(2 * HOUR);
    engine.worker().tidy().await;
    assert!(engine.sessions().get_by_hash("t1").await.unwrap().is_none());
    assert!(engine.sessions().get_by_hash("t2").await.unwrap().is_some());
}

/// A session, a session by its link, a key and a session of that key. Each is made over the previous one.
async fn revoking_a_session_revokes_the_keys_and_sessions_made_over_it(env: TestEnv) {
    let (engine, ann) = (&env.engine, key(&env, "ann").await);
    let first = engine.sessions().add(&ann, "ses_1", "t1").await.unwrap();
    let other = engine.sessions().add(&ann, "ses_other", "t0").await.unwrap();
    assert!(engine.keys().add(&made_over(&other, "other"), None).await.unwrap());
    for link in ["used", "open"] {
        assert!(engine.sessions().add_link(&ann.key_id, link, &over(&first)).await.unwrap().is_some());
    }
    let (second, _) = engine.sessions().sign_in_by_link("used", "ses_2", "t2").await.unwrap().unwrap();
    let made = made_over(&second, "made");
    assert!(engine.keys().add(&made, None).await.unwrap());
    let third = engine.sessions().add(&made, "ses_3", "t3").await.unwrap();
    assert!(engine.keys().add(&made_over(&third, "last"), None).await.unwrap());
    assert_eq!(
        engine.keys().get_by_hash("hash of last").await.unwrap().unwrap().depends_on,
        third.dependents()
    );

    assert!(!engine.sessions().revoke(&tenant(), &made.key_id, "ses_1").await.unwrap());
    assert!(engine.keys().get_by_hash("hash of last").await.unwrap().unwrap().is_active(engine.now()));
    assert!(engine.sessions().revoke(&tenant(), &ann.key_id, "ses_1").await.unwrap());
    for name in ["made", "last"] {
        let key = engine.keys().get_by_hash(&format!("hash of {name}")).await.unwrap().unwrap();
        assert_eq!(key.revoked_at, Some(engine.now()), "{name}");
    }
    for token in ["t1", "t2", "t3"] {
        let (session, _) = engine.sessions().get_by_hash(token).await.unwrap().unwrap();
        assert_eq!(session.revoked_at, Some(engine.now()), "{token}");
    }
    assert_eq!(engine.sessions().sign_in_by_link("open", "ses_4", "t4").await.unwrap(), None);
    for name in ["ann", "other"] {
        let key = engine.keys().get_by_hash(&format!("hash of {name}")).await.unwrap().unwrap();
        assert!(key.is_active(engine.now()), "{name}");
    }
    assert_eq!(engine.sessions().get_by_hash("t0").await.unwrap().unwrap().0.revoked_at, None);
}

async fn a_revoked_session_cannot_create_keys_or_links(env: TestEnv) {
    let (engine, ann) = (&env.engine, key(&env, "ann").await);
    let session = engine.sessions().add(&ann, "ses_1", "t1").await.unwrap();
    assert!(engine.sessions().revoke(&tenant(), &ann.key_id, "ses_1").await.unwrap());
    assert!(!engine.keys().add(&made_over(&session, "late"), None).await.unwrap());
    assert_eq!(engine.keys().get_by_hash("hash of late").await.unwrap(), None);
    let successor = ApiKey { lineage: ann.lineage.clone(), ..made_over(&session, "next") };
    assert!(!engine.keys().rotate(&successor, &ann.key_id, engine.now(), None).await.unwrap());
    assert!(engine.keys().get_by_hash("hash of ann").await.unwrap().unwrap().is_active(engine.now()));
    assert_eq!(engine.sessions().add_link(&ann.key_id, "link", &over(&session)).await.unwrap(), None);
    assert_eq!(engine.sessions().sign_in_by_link("link", "ses_2", "t2").await.unwrap(), None);
}

/// A rotation joins the caller's session with the sessions of the key. The sessions can be independent of each other.
async fn credentials_that_depend_on_several_sessions_are_rejected_after_one_is_revoked(env: TestEnv) {
    let (engine, ann) = (&env.engine, key(&env, "ann").await);
    let first = engine.sessions().add(&ann, "ses_1", "t1").await.unwrap();
    let second = engine.sessions().add(&ann, "ses_2", "t2").await.unwrap();
    let depends_on = first.dependents().joined(&second.dependents());
    let made = |name: &str| ApiKey { depends_on: depends_on.clone(), ..fresh_key(name) };
    assert!(engine.keys().add(&made("early"), None).await.unwrap());
    assert!(engine.sessions().revoke(&tenant(), &ann.key_id, "ses_1").await.unwrap());
    assert!(!engine.keys().add(&made("late"), None).await.unwrap());
    let successor = ApiKey { lineage: ann.lineage.clone(), ..made("next") };
    assert!(!engine.keys().rotate(&successor, &ann.key_id, engine.now(), None).await.unwrap());
    let limits = CredentialLimits { ends_at: None, depends_on };
    assert_eq!(engine.sessions().add_link(&ann.key_id, "link", &limits).await.unwrap(), None);
}

async fn a_sign_out_with_a_concurrent_new_key_leaves_no_active_key(env: TestEnv) {
    let (engine, ann) = (&env.engine, key(&env, "ann").await);
    let other = env.second_engine(|options| options).await;
    for round in 0..20 {
        let (id, token) = (format!("ses_{round}"), format!("t{round}"));
        let session = engine.sessions().add(&ann, &id, &token).await.unwrap();
        let late = made_over(&session, &format!("late{round}"));
        let (tenant, link) = (tenant(), format!("link{round}"));
        let (limits, by_link) = (over(&session), format!("by{round}"));
        engine.sessions().add_link(&ann.key_id, &link, &limits).await.unwrap();
        let (added, revoked, signed_in) = tokio::join!(
            engine.keys().add(&late, None),
            other.sessions().revoke(&tenant, &ann.key_id, &id),
            engine.sessions().sign_in_by_link(&link, &by_link, &by_link),
        );
        assert!(revoked.unwrap());
        signed_in.unwrap();
        let stored = engine.keys().get_by_hash(&late.key_hash).await.unwrap();
        assert_eq!(stored.is_some(), added.unwrap());
        assert!(stored.is_none_or(|key| key.revoked_at.is_some()), "round {round}");
        let session = engine.sessions().get_by_hash(&by_link).await.unwrap();
        assert!(session.is_none_or(|(session, _)| session.revoked_at.is_some()), "round {round}");
    }
    other.close().await;
}
