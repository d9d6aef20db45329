//! API keys: their stored fields, rotation, and the separation of test keys and live keys.

use holdpoint_engine::core::{TenantId, Timestamp};
use holdpoint_engine::{ApiKey, Dependence};

use crate::test_database::on_both;
use crate::test_env::{NOON, TestEnv, gated, tenant};

on_both! {
    a_key_is_stored_with_its_expiry_and_its_kind,
    the_first_key_decides_whether_a_tenant_is_for_tests,
    of_two_concurrent_first_keys_of_different_kinds_one_is_stored,
    a_rotated_key_expires_and_its_successor_shares_the_lineage,
    an_expired_or_revoked_key_cannot_be_rotated,
    approver_entries_without_an_active_key_are_unknown,
}

fn key(name: &str, tenant: &TenantId, test: bool) -> ApiKey {
    ApiKey {
        key_id: format!("key_{name}"),
        lineage: format!("key_{name}"),
        key_hash: format!("hash of {name}"),
        tenant: tenant.clone(),
        principal: name.to_owned(),
        roles: vec!["approver".to_owned()],
        groups: vec!["auditors".to_owned(), "board".to_owned()],
        scopes: vec!["runs:read".to_owned(), "runs:create".to_owned()],
        created_at: Timestamp(NOON),
        revoked_at: None,
        expires_at: None,
        test,
        depends_on: Dependence::default(),
    }
}

async fn a_key_is_stored_with_its_expiry_and_its_kind(env: TestEnv) {
    let endless = key("a", &tenant(), false);
    let ending = ApiKey { expires_at: Some(Timestamp(NOON + 1)), ..key("b", &tenant(), false) };
    let lab = TenantId::parse("lab").unwrap();
    let test = key("c", &lab, true);
    for key in [&endless, &ending, &test] {
        assert!(env.engine.keys().add(key, None).await.unwrap());
        assert!(!env.engine.keys().add(key, None).await.unwrap(), "the key is already stored");
        assert_eq!(env.engine.keys().get_by_hash(&key.key_hash).await.unwrap().as_ref(), Some(key));
    }
    assert_eq!(env.engine.keys().list(&tenant(), 10).await.unwrap(), [endless, ending]);
    // A key that an earlier version stored has its own id as lineage.
    env.database.execute("UPDATE keys SET lineage = NULL").await.unwrap();
    assert_eq!(env.engine.keys().lineage(&lab, "key_c").await.unwrap(), std::slice::from_ref(&test));
    assert_eq!(env.engine.keys().list(&lab, 10).await.unwrap(), [test]);
}

async fn a_rotated_key_expires_and_its_successor_shares_the_lineage(env: TestEnv) {
    let engine = &env.engine;
    let (old, end) = (key("a", &tenant(), false), Timestamp(NOON + 60_000));
    assert!(engine.keys().add(&old, None).await.unwrap());
    let successor = ApiKey { lineage: old.lineage.clone(), ..key("b", &tenant(), false) };
    assert!(engine.keys().rotate(&successor, &old.key_id, end, None).await.unwrap());
    let ending = ApiKey { expires_at: Some(end), ..old.clone() };
    let lineage = engine.keys().lineage(&tenant(), &old.lineage).await.unwrap();
    assert_eq!(lineage.len(), 2, "{lineage:?}");
    assert!(lineage.contains(&ending) && lineage.contains(&successor));
    assert!(ending.is_active(Timestamp(NOON)) && !ending.is_active(end));
    // A key that expires earlier keeps its expiry.
    let third = ApiKey { lineage: old.lineage.clone(), ..key("c", &tenant(), false) };
    assert!(engine.keys().rotate(&third, &old.key_id, end.plus_ms(1), None).await.unwrap());
    assert_eq!(engine.keys().get(&tenant(), &old.key_id).await.unwrap(), Some(ending));
    let elsewhere = TenantId::parse("elsewhere").unwrap();
    assert_eq!(engine.keys().lineage(&elsewhere, &old.lineage).await.unwrap(), []);
    assert_eq!(engine.keys().get(&elsewhere, &old.key_id).await.unwrap(), None);
}

async fn an_expired_or_revoked_key_cannot_be_rotated(env: TestEnv) {
    let engine = &env.engine;
    let expired = ApiKey { expires_at: Some(Timestamp(NOON)), ..key("a", &tenant(), false) };
    let revoked = key("b", &tenant(), false);
    for old in [&expired, &revoked] {
        assert!(engine.keys().add(old, None).await.unwrap());
    }
    assert!(engine.keys().revoke(&tenant(), &revoked.key_id, None).await.unwrap());
    for (old, name) in [(&expired, "c"), (&revoked, "d")] {
        let successor = ApiKey { lineage: old.lineage.clone(), ..key(name, &tenant(), false) };
        assert!(!engine.keys().rotate(&successor, &old.key_id, Timestamp(NOON + 1), None).await.unwrap());
        assert_eq!(engine.keys().lineage(&tenant(), &old.lineage).await.unwrap().len(), 1);
    }
}

async fn the_first_key_decides_whether_a_tenant_is_for_tests(env: TestEnv) {
    env.register(gated("flow")).await;
    assert_eq!(
        env.engine.keys().tenant_is_test(&tenant()).await.unwrap(),
        None,
        "a workflow does not decide it"
    );
    assert!(env.engine.keys().add(&key("a", &tenant(), true), None).await.unwrap());
    assert_eq!(env.engine.keys().tenant_is_test(&tenant()).await.unwrap(), Some(true));
    assert!(!env.engine.keys().add(&key("b", &tenant(), false), None).await.unwrap());
    assert_eq!(env.engine.keys().get_by_hash("hash of b").await.unwrap(), None);
    assert!(env.engine.keys().add(&key("c", &tenant(), true), None).await.unwrap());
}

async fn of_two_concurrent_first_keys_of_different_kinds_one_is_stored(env: TestEnv) {
    for round in 0..20 {
        let tenant = TenantId::parse(&format!("tenant-{round}")).unwrap();
        let (live, test) =
            (key(&format!("live-{round}"), &tenant, false), key(&format!("test-{round}"), &tenant, true));
        let (one, other) =
            tokio::join!(env.engine.keys().add(&live, None), env.engine.keys().add(&test, None));
        assert_ne!(one.unwrap(), other.unwrap(), "exactly one is stored");
        let kind = env.engine.keys().tenant_is_test(&tenant).await.unwrap();
        let stored = env.engine.keys().list(&tenant, 10).await.unwrap();
        assert_eq!(stored.iter().map(|key| Some(key.test)).collect::<Vec<_>>(), [kind]);
    }
}

async fn approver_entries_without_an_active_key_are_unknown(env: TestEnv) {
    let expired = ApiKey { expires_at: Some(Timestamp(NOON - 1)), ..key("old", &tenant(), false) };
    for key in [key("ann", &tenant(), false), key("gone", &tenant(), false), expired] {
        assert!(env.engine.keys().add(&key, None).await.unwrap());
    }
    assert!(env.engine.keys().revoke(&tenant(), "key_gone", None).await.unwrap());
    let known = ["ann", "approver", "board", "role:approver", "group:auditors", "scope:runs:read"];
    let unknown = ["gone", "old", "zoe", "role:ann", "group:approver", "scope:runs:cancel"];
    let entries: Vec<String> = known.iter().chain(&unknown).map(ToString::to_string).collect();
    assert_eq!(env.engine.approvers().find_unknown(&tenant(), &entries).await.unwrap(), unknown);
    let other = TenantId::parse("other").unwrap();
    assert_eq!(env.engine.approvers().find_unknown(&other, &entries).await.unwrap(), entries);
}
