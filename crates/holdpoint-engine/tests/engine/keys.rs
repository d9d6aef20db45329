//! Keys: what is stored of them, and that a tenant is for tests or for real.

use holdpoint_engine::core::{TenantId, Timestamp};
use holdpoint_engine::{ApiKey, Dependence};

use crate::house::{House, NOON, gated, tenant};
use crate::place::on_both;

on_both! {
    a_key_is_kept_with_its_end_and_its_kind,
    the_first_key_decides_what_a_tenant_is_for,
    of_first_keys_of_both_kinds_one_is_stored,
    a_successor_shares_the_lineage_of_its_key_and_the_key_ends,
    a_key_that_has_ended_gets_no_successor,
    names_that_no_active_key_has_are_unknown,
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

async fn a_key_is_kept_with_its_end_and_its_kind(house: House) {
    let endless = key("a", &tenant(), false);
    let ending = ApiKey { expires_at: Some(Timestamp(NOON + 1)), ..key("b", &tenant(), false) };
    let lab = TenantId::parse("lab").unwrap();
    let test = key("c", &lab, true);
    for key in [&endless, &ending, &test] {
        assert!(house.engine.add_key(key, None).await.unwrap());
        assert!(!house.engine.add_key(key, None).await.unwrap(), "it is there already");
        assert_eq!(house.engine.key_by_hash(&key.key_hash).await.unwrap().as_ref(), Some(key));
    }
    assert_eq!(house.engine.keys(&tenant(), 10).await.unwrap(), [endless, ending]);
    // The lineage of a key of an earlier version is its own id.
    house.place.execute("UPDATE keys SET lineage = NULL").await.unwrap();
    assert_eq!(house.engine.lineage(&lab, "key_c").await.unwrap(), std::slice::from_ref(&test));
    assert_eq!(house.engine.keys(&lab, 10).await.unwrap(), [test]);
}

async fn a_successor_shares_the_lineage_of_its_key_and_the_key_ends(house: House) {
    let engine = &house.engine;
    let (old, end) = (key("a", &tenant(), false), Timestamp(NOON + 60_000));
    assert!(engine.add_key(&old, None).await.unwrap());
    let successor = ApiKey { lineage: old.lineage.clone(), ..key("b", &tenant(), false) };
    assert!(engine.rotate_key(&successor, &old.key_id, end, None).await.unwrap());
    let ending = ApiKey { expires_at: Some(end), ..old.clone() };
    let lineage = engine.lineage(&tenant(), &old.lineage).await.unwrap();
    assert_eq!(lineage.len(), 2, "{lineage:?}");
    assert!(lineage.contains(&ending) && lineage.contains(&successor));
    assert!(ending.is_active(Timestamp(NOON)) && !ending.is_active(end));
    // A key that expires earlier keeps its expiry.
    let third = ApiKey { lineage: old.lineage.clone(), ..key("c", &tenant(), false) };
    assert!(engine.rotate_key(&third, &old.key_id, end.plus_ms(1), None).await.unwrap());
    assert_eq!(engine.key(&tenant(), &old.key_id).await.unwrap(), Some(ending));
    let elsewhere = TenantId::parse("elsewhere").unwrap();
    assert_eq!(engine.lineage(&elsewhere, &old.lineage).await.unwrap(), []);
    assert_eq!(engine.key(&elsewhere, &old.key_id).await.unwrap(), None);
}

async fn a_key_that_has_ended_gets_no_successor(house: House) {
    let engine = &house.engine;
    let expired = ApiKey { expires_at: Some(Timestamp(NOON)), ..key("a", &tenant(), false) };
    let revoked = key("b", &tenant(), false);
    for old in [&expired, &revoked] {
        assert!(engine.add_key(old, None).await.unwrap());
    }
    assert!(engine.revoke_key(&tenant(), &revoked.key_id, None).await.unwrap());
    for (old, name) in [(&expired, "c"), (&revoked, "d")] {
        let successor = ApiKey { lineage: old.lineage.clone(), ..key(name, &tenant(), false) };
        assert!(!engine.rotate_key(&successor, &old.key_id, Timestamp(NOON + 1), None).await.unwrap());
        assert_eq!(engine.lineage(&tenant(), &old.lineage).await.unwrap().len(), 1);
    }
}

async fn the_first_key_decides_what_a_tenant_is_for(house: House) {
    house.register(gated("flow")).await;
    assert_eq!(house.engine.tenant_is_test(&tenant()).await.unwrap(), None, "a workflow decides nothing");
    assert!(house.engine.add_key(&key("a", &tenant(), true), None).await.unwrap());
    assert_eq!(house.engine.tenant_is_test(&tenant()).await.unwrap(), Some(true));
    assert!(!house.engine.add_key(&key("b", &tenant(), false), None).await.unwrap());
    assert_eq!(house.engine.key_by_hash("hash of b").await.unwrap(), None);
    assert!(house.engine.add_key(&key("c", &tenant(), true), None).await.unwrap());
}

async fn of_first_keys_of_both_kinds_one_is_stored(house: House) {
    for round in 0..20 {
        let tenant = TenantId::parse(&format!("tenant-{round}")).unwrap();
        let (live, test) =
            (key(&format!("live-{round}"), &tenant, false), key(&format!("test-{round}"), &tenant, true));
        let (one, other) = tokio::join!(house.engine.add_key(&live, None), house.engine.add_key(&test, None));
        assert_ne!(one.unwrap(), other.unwrap(), "one of them, and only one");
        let kind = house.engine.tenant_is_test(&tenant).await.unwrap();
        let stored = house.engine.keys(&tenant, 10).await.unwrap();
        assert_eq!(stored.iter().map(|key| Some(key.test)).collect::<Vec<_>>(), [kind]);
    }
}

async fn names_that_no_active_key_has_are_unknown(house: House) {
    let expired = ApiKey { expires_at: Some(Timestamp(NOON - 1)), ..key("old", &tenant(), false) };
    for key in [key("ann", &tenant(), false), key("gone", &tenant(), false), expired] {
        assert!(house.engine.add_key(&key, None).await.unwrap());
    }
    assert!(house.engine.revoke_key(&tenant(), "key_gone", None).await.unwrap());
    let known = ["ann", "approver", "board", "role:approver", "group:auditors", "scope:runs:read"];
    let unknown = ["gone", "old", "zoe", "role:ann", "group:approver", "scope:runs:cancel"];
    let entries: Vec<String> = known.iter().chain(&unknown).map(ToString::to_string).collect();
    assert_eq!(house.engine.find_unknown_people(&tenant(), &entries).await.unwrap(), unknown);
    let other = TenantId::parse("other").unwrap();
    assert_eq!(house.engine.find_unknown_people(&other, &entries).await.unwrap(), entries);
}
