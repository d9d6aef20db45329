//! Sessions: how long they last, what ends them, and that a link signs in once.

use std::sync::atomic::Ordering;

use holdpoint_engine::core::Timestamp;
use holdpoint_engine::{ApiKey, CredentialLimits, Dependence, Engine, Session};

use crate::house::{House, NOON, tenant};
use crate::place::on_both;

on_both! {
    a_session_lasts_while_it_is_used_and_no_longer_than_a_week,
    a_session_is_ended_by_its_own_key_alone,
    a_link_signs_in_once_and_in_time,
    a_link_with_an_end_makes_a_session_that_ends_then,
    a_link_that_cannot_be_used_costs_no_commit,
    a_key_that_has_ended_lets_nobody_in,
    what_has_ended_is_deleted,
    a_revoked_session_ends_what_was_made_over_it,
    a_revoked_session_makes_no_more_keys_and_links,
    a_key_of_several_sessions_makes_no_more_keys_after_one_of_them,
    a_sign_out_races_with_a_new_key_and_leaves_no_active_key,
}

const HOUR: i64 = 3_600_000;

pub(crate) async fn key(house: &House, name: &str) -> ApiKey {
    let key = fresh_key(name);
    assert!(house.engine.add_key(&key, None).await.unwrap());
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

/// Returns the limits of what is made over the session.
fn over(session: &Session) -> CredentialLimits {
    CredentialLimits { ends_at: Some(session.ends_at), depends_on: session.dependents() }
}

pub(crate) fn made_over(session: &Session, name: &str) -> ApiKey {
    ApiKey { depends_on: session.dependents(), ..fresh_key(name) }
}

async fn a_session_lasts_while_it_is_used_and_no_longer_than_a_week(house: House) {
    let (engine, key) = (&house.engine, key(&house, "ann").await);
    let mut session = engine.add_session(&key, "s1", "t1").await.unwrap();
    assert_eq!(session.expires_at, Timestamp(NOON + 12 * HOUR));
    house.clock.advance(60_000);
    assert_eq!(engine.use_session(session.clone()).await.unwrap(), session, "a minute later is no news");
    for _ in 0..15 {
        house.clock.advance(11 * HOUR);
        session = engine.use_session(session).await.unwrap();
        let (stored, of) = engine.session_by_hash("t1").await.unwrap().unwrap();
        assert_eq!((&stored, &of), (&session, &key));
        assert!(stored.expires_at <= Timestamp(NOON + 7 * 24 * HOUR));
        if engine.now() < Timestamp(NOON + 6 * 24 * HOUR) {
            assert_eq!(stored.expires_at, engine.now().plus_ms(Engine::SESSION_IDLE_MS));
        }
    }
    assert_eq!(session.expires_at, Timestamp(NOON + 7 * 24 * HOUR));
    assert_eq!(engine.session_by_hash("t2").await.unwrap(), None);
}

async fn a_session_is_ended_by_its_own_key_alone(house: House) {
    let engine = &house.engine;
    let (ann, bob) = (key(&house, "ann").await, key(&house, "bob").await);
    let first = engine.add_session(&ann, "s1", "t1").await.unwrap();
    house.clock.advance(HOUR);
    let second = engine.add_session(&ann, "s2", "t2").await.unwrap();
    engine.add_session(&bob, "s3", "t3").await.unwrap();
    let listed = engine.sessions(&tenant(), &ann.key_id, 10).await.unwrap();
    assert_eq!(listed, [second.clone(), first], "the newest first");
    assert!(!engine.revoke_session(&tenant(), &bob.key_id, "s1").await.unwrap());
    assert!(engine.revoke_session(&tenant(), &ann.key_id, "s1").await.unwrap());
    let (revoked, _) = engine.session_by_hash("t1").await.unwrap().unwrap();
    assert_eq!(revoked.revoked_at, Some(engine.now()));
    assert_eq!(engine.sessions(&tenant(), &ann.key_id, 10).await.unwrap(), [second]);
    house.clock.advance(HOUR);
    engine.use_session(revoked.clone()).await.unwrap();
    let (after, _) = engine.session_by_hash("t1").await.unwrap().unwrap();
    assert_eq!(after, revoked, "what was ended is not prolonged");
    house.clock.advance(12 * HOUR);
    assert_eq!(engine.sessions(&tenant(), &ann.key_id, 10).await.unwrap(), []);
}

async fn a_link_signs_in_once_and_in_time(house: House) {
    let (engine, key) = (&house.engine, key(&house, "ann").await);
    engine.add_session_link(&key.key_id, "link", &CredentialLimits::default()).await.unwrap();
    let other = house.second_engine(|options| options).await;
    let both =
        tokio::join!(engine.sign_in_by_link("link", "s1", "t1"), other.sign_in_by_link("link", "s2", "t2"));
    let both = [both.0.unwrap(), both.1.unwrap()];
    assert_eq!(both.iter().flatten().count(), 1, "of two at once one");
    assert_eq!(engine.sign_in_by_link("link", "s3", "t3").await.unwrap(), None);
    assert_eq!(engine.sign_in_by_link("none", "s4", "t4").await.unwrap(), None);
    engine.add_session_link(&key.key_id, "late", &CredentialLimits::default()).await.unwrap();
    house.clock.advance(i64::try_from(Engine::SESSION_LINK_MS).unwrap());
    assert_eq!(engine.sign_in_by_link("late", "s5", "t5").await.unwrap(), None);
    assert_eq!(engine.sessions(&tenant(), &key.key_id, 10).await.unwrap().len(), 1);
    other.close().await;
}

async fn a_link_with_an_end_makes_a_session_that_ends_then(house: House) {
    let (engine, key) = (&house.engine, key(&house, "ann").await);
    let end = Timestamp(NOON + 20 * HOUR);
    engine.add_session_link(&key.key_id, "link", &ending(end)).await.unwrap();
    let (mut session, _) = engine.sign_in_by_link("link", "s1", "t1").await.unwrap().unwrap();
    assert_eq!((session.expires_at, session.ends_at), (Timestamp(NOON + 12 * HOUR), end));
    for _ in 0..3 {
        house.clock.advance(6 * HOUR);
        session = engine.use_session(session).await.unwrap();
    }
    assert_eq!((session.expires_at, session.ends_at), (end, end), "use does not extend it beyond its end");
    assert_eq!(engine.session_by_hash("t1").await.unwrap().unwrap().0, session);
    let soon = engine.now().plus_ms(60_000);
    let expires_at = engine.add_session_link(&key.key_id, "last", &ending(soon)).await.unwrap();
    let (last, _) = engine.sign_in_by_link("last", "s2", "t2").await.unwrap().unwrap();
    assert_eq!((expires_at, last.expires_at, last.ends_at), (Some(soon), soon, soon));
}

async fn a_link_that_cannot_be_used_costs_no_commit(house: House) {
    let (engine, key) = (&house.engine, key(&house, "ann").await);
    engine.add_session_link(&key.key_id, "link", &CredentialLimits::default()).await.unwrap();
    assert!(engine.sign_in_by_link("link", "s1", "t1").await.unwrap().is_some());
    let before = engine.counters().commits.load(Ordering::SeqCst);
    for link in ["link", "none", ""] {
        assert_eq!(engine.sign_in_by_link(link, "s2", "t2").await.unwrap(), None);
    }
    assert_eq!(engine.counters().commits.load(Ordering::SeqCst), before);
}

async fn a_key_that_has_ended_lets_nobody_in(house: House) {
    let (engine, key) = (&house.engine, key(&house, "ann").await);
    engine.add_session_link(&key.key_id, "link", &CredentialLimits::default()).await.unwrap();
    engine.add_session(&key, "s0", "t0").await.unwrap();
    assert!(engine.revoke_key(&tenant(), &key.key_id, None).await.unwrap());
    assert_eq!(engine.sign_in_by_link("link", "s1", "t1").await.unwrap(), None);
    let (_, of) = engine.session_by_hash("t0").await.unwrap().unwrap();
    assert_eq!(of.revoked_at, Some(engine.now()), "a session tells of its key as it is now");
}

async fn what_has_ended_is_deleted(house: House) {
    let (engine, key) = (&house.engine, key(&house, "ann").await);
    engine.add_session(&key, "s1", "t1").await.unwrap();
    engine.add_session_link(&key.key_id, "link", &CredentialLimits::default()).await.unwrap();
    house.clock.advance(11 * HOUR);
    engine.add_session(&key, "s2", "t2").await.unwrap();
    engine.worker().tidy().await;
    assert!(engine.session_by_hash("t1").await.unwrap().is_some());
    house.clock.advance(2 * HOUR);
    engine.worker().tidy().await;
    assert!(engine.session_by_hash("t1").await.unwrap().is_none());
    assert!(engine.session_by_hash("t2").await.unwrap().is_some());
}

/// A session, a session by its link, a key and a session of that key: each is made over the one before.
async fn a_revoked_session_ends_what_was_made_over_it(house: House) {
    let (engine, ann) = (&house.engine, key(&house, "ann").await);
    let first = engine.add_session(&ann, "ses_1", "t1").await.unwrap();
    let other = engine.add_session(&ann, "ses_other", "t0").await.unwrap();
    assert!(engine.add_key(&made_over(&other, "other"), None).await.unwrap());
    for link in ["used", "open"] {
        assert!(engine.add_session_link(&ann.key_id, link, &over(&first)).await.unwrap().is_some());
    }
    let (second, _) = engine.sign_in_by_link("used", "ses_2", "t2").await.unwrap().unwrap();
    let made = made_over(&second, "made");
    assert!(engine.add_key(&made, None).await.unwrap());
    let third = engine.add_session(&made, "ses_3", "t3").await.unwrap();
    assert!(engine.add_key(&made_over(&third, "last"), None).await.unwrap());
    assert_eq!(engine.key_by_hash("hash of last").await.unwrap().unwrap().depends_on, third.dependents());

    assert!(!engine.revoke_session(&tenant(), &made.key_id, "ses_1").await.unwrap());
    assert!(engine.key_by_hash("hash of last").await.unwrap().unwrap().is_active(engine.now()));
    assert!(engine.revoke_session(&tenant(), &ann.key_id, "ses_1").await.unwrap());
    for name in ["made", "last"] {
        let key = engine.key_by_hash(&format!("hash of {name}")).await.unwrap().unwrap();
        assert_eq!(key.revoked_at, Some(engine.now()), "{name}");
    }
    for token in ["t1", "t2", "t3"] {
        let (session, _) = engine.session_by_hash(token).await.unwrap().unwrap();
        assert_eq!(session.revoked_at, Some(engine.now()), "{token}");
    }
    assert_eq!(engine.sign_in_by_link("open", "ses_4", "t4").await.unwrap(), None);
    for name in ["ann", "other"] {
        let key = engine.key_by_hash(&format!("hash of {name}")).await.unwrap().unwrap();
        assert!(key.is_active(engine.now()), "{name}");
    }
    assert_eq!(engine.session_by_hash("t0").await.unwrap().unwrap().0.revoked_at, None);
}

async fn a_revoked_session_makes_no_more_keys_and_links(house: House) {
    let (engine, ann) = (&house.engine, key(&house, "ann").await);
    let session = engine.add_session(&ann, "ses_1", "t1").await.unwrap();
    assert!(engine.revoke_session(&tenant(), &ann.key_id, "ses_1").await.unwrap());
    assert!(!engine.add_key(&made_over(&session, "late"), None).await.unwrap());
    assert_eq!(engine.key_by_hash("hash of late").await.unwrap(), None);
    let successor = ApiKey { lineage: ann.lineage.clone(), ..made_over(&session, "next") };
    assert!(!engine.rotate_key(&successor, &ann.key_id, engine.now(), None).await.unwrap());
    assert!(engine.key_by_hash("hash of ann").await.unwrap().unwrap().is_active(engine.now()));
    assert_eq!(engine.add_session_link(&ann.key_id, "link", &over(&session)).await.unwrap(), None);
    assert_eq!(engine.sign_in_by_link("link", "ses_2", "t2").await.unwrap(), None);
}

/// A rotation over a session joins it with the sessions of the key. They need not depend on each other.
async fn a_key_of_several_sessions_makes_no_more_keys_after_one_of_them(house: House) {
    let (engine, ann) = (&house.engine, key(&house, "ann").await);
    let first = engine.add_session(&ann, "ses_1", "t1").await.unwrap();
    let second = engine.add_session(&ann, "ses_2", "t2").await.unwrap();
    let depends_on = first.dependents().joined(&second.dependents());
    let made = |name: &str| ApiKey { depends_on: depends_on.clone(), ..fresh_key(name) };
    assert!(engine.add_key(&made("early"), None).await.unwrap());
    assert!(engine.revoke_session(&tenant(), &ann.key_id, "ses_1").await.unwrap());
    assert!(!engine.add_key(&made("late"), None).await.unwrap());
    let successor = ApiKey { lineage: ann.lineage.clone(), ..made("next") };
    assert!(!engine.rotate_key(&successor, &ann.key_id, engine.now(), None).await.unwrap());
    let limits = CredentialLimits { ends_at: None, depends_on };
    assert_eq!(engine.add_session_link(&ann.key_id, "link", &limits).await.unwrap(), None);
}

async fn a_sign_out_races_with_a_new_key_and_leaves_no_active_key(house: House) {
    let (engine, ann) = (&house.engine, key(&house, "ann").await);
    let other = house.second_engine(|options| options).await;
    for round in 0..20 {
        let (id, token) = (format!("ses_{round}"), format!("t{round}"));
        let session = engine.add_session(&ann, &id, &token).await.unwrap();
        let late = made_over(&session, &format!("late{round}"));
        let (tenant, link) = (tenant(), format!("link{round}"));
        let (limits, by_link) = (over(&session), format!("by{round}"));
        engine.add_session_link(&ann.key_id, &link, &limits).await.unwrap();
        let (added, revoked, signed_in) = tokio::join!(
            engine.add_key(&late, None),
            other.revoke_session(&tenant, &ann.key_id, &id),
            engine.sign_in_by_link(&link, &by_link, &by_link),
        );
        assert!(revoked.unwrap());
        signed_in.unwrap();
        let stored = engine.key_by_hash(&late.key_hash).await.unwrap();
        assert_eq!(stored.is_some(), added.unwrap());
        assert!(stored.is_none_or(|key| key.revoked_at.is_some()), "round {round}");
        let session = engine.session_by_hash(&by_link).await.unwrap();
        assert!(session.is_none_or(|(session, _)| session.revoked_at.is_some()), "round {round}");
    }
    other.close().await;
}
