//! Threads: what was said in them, and what agents remember of it.

use serde_json::json;

use super::{Office, agent, call};
use crate::house::tenant;
use crate::place::on_both;

on_both! {
    a_thread_keeps_what_was_said_in_its_order,
    a_later_run_knows_what_was_said_before,
}

async fn a_thread_keeps_what_was_said_in_its_order(office: Office) {
    let steps = json!([{ "calls": [call("c1", "look", json!({ "to": "x" }))] }, { "text": "Seen." }]);
    office.hire(agent(&steps)).await;
    office.told(Some("t"), "one").await;
    office.told(Some("t"), "two").await;
    office.told(Some("u"), "elsewhere").await;
    let said = office.house.engine.messages(&tenant(), "t", None, 100).await.unwrap();
    let roles: Vec<String> = said.iter().map(|said| format!("{:?}", said.message.role)).collect();
    let one = ["User", "Assistant", "Tool", "Assistant"];
    assert_eq!(roles, [one, one].concat());
    assert_eq!((said[0].message.text(), said[4].message.text()), ("one".to_owned(), "two".to_owned()));
    let behind = (&said[2].run, said[2].seq);
    let rest = office.house.engine.messages(&tenant(), "t", Some(behind), 2).await.unwrap();
    assert_eq!(rest, said[3..5]);
}

async fn a_later_run_knows_what_was_said_before(office: Office) {
    office.hire(agent(&json!([{ "text": "You said {{user}}." }]))).await;
    office.told(Some("t"), "one").await;
    let of = office.told(Some("t"), "two").await;
    assert_eq!(office.agent(&of).await.last_reply().unwrap().text(), "You said two.");
    assert_eq!(office.house.status(&of).await, "completed");
}
