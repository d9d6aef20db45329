//! Invariants that hold after every sequence of requests. The check reads the receiver, the logs of all runs, the
//! grants as the server shows them, and the sequence's own record of what each approver was shown.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::flows::Shape;
use crate::ledger::Effect;
use crate::sequence::{Run, Sequence, Vote};
use crate::world::Call;

/// The most visits of a node in any flow.
const VISITS_MAX: u32 = 4;
const NODES: [&str; 3] = ["pay", "book", "tell"];
const GRANTING: [&str; 4] = ["accept", "edit-accept", "granted", "override"];

/// Returns the violations of a sequence.
pub(crate) fn check(sequence: &Sequence<'_>) -> Vec<String> {
    let mut check = Check {
        sequence,
        logs: BTreeMap::new(),
        grants: BTreeMap::new(),
        used: BTreeMap::new(),
        found: sequence.violations.clone(),
    };
    for run in &sequence.runs {
        check.logs.insert(run.id.clone(), sequence.log(&run.id));
        check.credentials(run);
        check.decisions(run);
    }
    for effect in sequence.effects() {
        check.effect(&effect);
    }
    check.count_effects();
    check.consumptions();
    check.found
}

/// The origin of an effect, read from its idempotency key.
struct Origin<'a> {
    run: &'a Run,
    node: String,
    visit: u64,
    call: Option<String>,
}

/// The use of a grant by an effect: holder, node, visit, call, and the node in a child run.
type Use = (String, String, u64, Option<String>, String);

struct Check<'a> {
    sequence: &'a Sequence<'a>,
    logs: BTreeMap<String, Vec<Value>>,
    /// Grants by their id, as the server shows them.
    grants: BTreeMap<String, Value>,
    /// The idempotency keys of each use.
    used: BTreeMap<Use, BTreeSet<String>>,
    found: Vec<String>,
}

impl Check<'_> {
    fn wrong(&mut self, what: String) {
        self.found.push(what);
    }

    fn grant(&mut self, id: &str) -> Value {
        if let Some(known) = self.grants.get(id) {
            return known.clone();
        }
        let world = self.sequence.world;
        let shown = world.call(&world.admin, &Call::of("getGrant").at("grantId", id)).body;
        self.grants.insert(id.to_owned(), shown.clone());
        shown
    }

    /// Checks that every decision was made with a credential of an approver.
    fn credentials(&mut self, run: &Run) {
        let world = self.sequence.world;
        for event in self.logs[&run.id].clone() {
            if !["interrupt.resolved", "holdpoint.vote.cast"].contains(&event["type"].as_str().unwrap_or(""))
            {
                continue;
            }
            let (payload, text) =
                (&event["payload"], |value: &Value| value.as_str().unwrap_or("none").to_owned());
            let via = format!("{}:{}", text(&payload["via"]["type"]), text(&payload["via"]["id"]));
            let is_approver = world.approvers.iter().any(|one| one.credential == via);
            let grants =
                ["action", "decision"].iter().any(|name| GRANTING.contains(&text(&payload[*name]).as_str()));
            let is_host = via.starts_with("system:") && (via == "system:replay" || !grants);
            if !is_approver && !is_host && !self.sequence.links.contains(&via) {
                self.wrong(format!("run {}: a decision came with {via}: {payload}", run.id));
            }
        }
    }

    /// Checks that every usable grant of the run was decided in this run, by enough approvers, none of them a
    /// requester.
    fn decisions(&mut self, run: &Run) {
        for asked in self.sequence.interrupts(&run.id) {
            if asked.get("grantId").is_none() {
                continue;
            }
            let number = asked["interruptId"].as_str().unwrap().rsplit_once(':').unwrap().1;
            let grant = self.grant(&format!("{}:{number}", run.id));
            if grant["transferred"] == true {
                continue;
            }
            let deciders = deciders(&grant);
            let node = grant["nodeId"].as_str().unwrap_or("none");
            if deciders.len() < self.sequence.plan.shape.votes(node) {
                self.wrong(format!("grant {} has too few deciders: {deciders:?}", grant["grantId"]));
            }
            for decider in &deciders {
                if self.votes(run, &grant, decider).is_empty() {
                    self.wrong(format!(
                        "{decider} decided and may not, or never approved in this run: {grant}"
                    ));
                }
            }
        }
    }

    /// Returns the approvals that a decider gave while it was no requester.
    fn votes(&self, run: &Run, grant: &Value, decider: &str) -> Vec<&Vote> {
        let votes = self.sequence.votes.iter().filter(|vote| vote.run == run.id && !vote.excluded);
        votes.filter(|vote| grant["interruptId"] == *vote.interrupt && vote.voter == decider).collect()
    }

    fn effect(&mut self, effect: &Effect) {
        if !effect.path.starts_with("/ok/") {
            self.wrong(format!("a definition that no run was started with was executed: {effect:?}"));
        }
        let sequence = self.sequence;
        let Some(origin) = origin(&sequence.runs, effect) else {
            return self.wrong(format!("an effect of no known run: {effect:?}"));
        };
        // A child run carries the grants of the node that started it.
        let (holder, node, visit) = match &origin.run.parent {
            Some(parent) => {
                (sequence.runs.iter().find(|run| run.id == *parent).unwrap(), "child".to_owned(), 1)
            }
            None => (origin.run, origin.node.clone(), origin.visit),
        };
        let grants = begun_with(&self.logs[&holder.id], &node, visit, origin.call.as_deref());
        if grants.is_empty() {
            self.wrong(format!("run {} made an effect without a grant: {effect:?}", origin.run.id));
        }
        for id in grants {
            self.used_grant(&id, holder, (&node, visit), &origin, effect);
        }
        let used = (holder.id.clone(), node, visit, origin.call.clone(), origin.node.clone());
        let keys = self.used.entry(used.clone()).or_default();
        keys.insert(effect.key.clone());
        if keys.len() > 1 {
            self.wrong(format!("two effects for one use {used:?}: {effect:?}"));
        }
    }

    /// Checks that the grant belongs to the run, was used once for this effect, and that its voters agreed to the
    /// payload that was sent.
    fn used_grant(
        &mut self,
        id: &str,
        holder: &Run,
        (node, visit): (&str, u64),
        origin: &Origin<'_>,
        effect: &Effect,
    ) {
        if id.rsplit_once(':').is_none_or(|(run, _)| run != holder.id) {
            self.wrong(format!("run {} used {id}, which is a grant of another run: {effect:?}", holder.id));
        }
        let grant = self.grant(id);
        if grant["transferred"] != false || grant["runId"] != *holder.id {
            self.wrong(format!("run {} used a grant that is not its own: {grant}", holder.id));
        }
        let uses = grant["uses"].as_array().cloned().unwrap_or_default();
        let call = origin.call.as_deref().map(Value::from);
        let same = |one: &&Value| {
            one["nodeId"] == *node && one["visit"] == visit && one.get("callId").cloned() == call
        };
        if uses.iter().filter(same).count() != 1 {
            self.wrong(format!("grant {id} does not have one use of {node} {visit} {call:?}: {grant}"));
        }
        // A gate before an agent shows the purpose of the agent, not each call.
        let fixes_payload = grant["nodeId"] == *node || origin.call.is_none();
        for decider in deciders(&grant) {
            let votes = self.votes(holder, &grant, &decider);
            if !votes.iter().any(|vote| !fixes_payload || vote.agreed == effect.body) {
                let agreed: Vec<&Value> = votes.iter().map(|vote| &vote.agreed).collect();
                let sent =
                    format!("grant {id}: {decider} agreed to {agreed:?}, and {} was sent", effect.body);
                self.wrong(sent);
            }
        }
    }

    /// Checks, without the grants of the server, that no node of a run has more effects than the run has decisions.
    fn count_effects(&mut self) {
        let sequence = self.sequence;
        let mut counts: BTreeMap<(&String, &String, &Option<String>), usize> = BTreeMap::new();
        for ((holder, _, _, call, node), keys) in &self.used {
            *counts.entry((holder, node, call)).or_default() += keys.len();
        }
        let mut wrong = Vec::new();
        for ((holder, node, call), count) in counts {
            let run = sequence.runs.iter().find(|run| run.id == *holder).unwrap();
            let decided = decided(sequence, run);
            if count > decided {
                wrong.push(format!(
                    "run {holder}: {count} effects of {node} {call:?} from {decided} decisions"
                ));
            }
        }
        self.found.extend(wrong);
    }

    /// Checks that a grant is consumed once, for the payload that was shown, and never by a fork.
    fn consumptions(&mut self) {
        let mut by_grant: BTreeMap<&String, BTreeSet<(&String, &String)>> = BTreeMap::new();
        for used in &self.sequence.consumed {
            by_grant.entry(&used.grant).or_default().insert((&used.by, &used.key));
        }
        let mut wrong = Vec::new();
        for (grant, keys) in by_grant {
            if keys.len() > 1 {
                wrong.push(format!("grant {grant} was consumed by {keys:?}"));
            }
            let shown = self.grant(grant);
            let holder = grant.rsplit_once(':').map(|(run, _)| run.to_owned());
            let run = self.sequence.runs.iter().find(|run| holder.as_ref() == Some(&run.id));
            if run.is_none_or(|run| decided(self.sequence, run) == 0) || shown["transferred"] != false {
                wrong.push(format!("grant {grant} was consumed and its run has no decision: {shown}"));
            }
        }
        let bogus = self.sequence.consumed.iter().filter(|used| used.bogus);
        wrong.extend(bogus.map(|used| format!("a wrong digest consumed a grant: {used:?}")));
        self.found.extend(wrong);
    }
}

/// Returns the number of interrupts of a run that enough approvers approved, requesters not counted.
fn decided(sequence: &Sequence<'_>, run: &Run) -> usize {
    let mut voters: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let own = sequence.votes.iter().filter(|vote| vote.run == run.id && !vote.excluded);
    for vote in own {
        voters.entry(&vote.interrupt).or_default().insert(&vote.voter);
    }
    let needed = if sequence.plan.shape == Shape::Quorum { 2 } else { 1 };
    voters.values().filter(|voters| voters.len() >= needed).count()
}

fn deciders(grant: &Value) -> BTreeSet<String> {
    let names = grant["deciders"].as_array().into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the grants that the effect was begun with.
fn begun_with(log: &[Value], node: &str, visit: u64, call: Option<&str>) -> Vec<String> {
    let begun = match call {
        Some(call) => {
            let begun = |event: &&Value| {
                event["type"] == "holdpoint.tool.begun" && event["payload"]["callId"] == call
            };
            log.iter().rfind(begun)
        }
        None => {
            let started = |event: &&Value| event["type"] == "node.started" && event["nodeId"] == node;
            log.iter().filter(started).nth(usize::try_from(visit - 1).unwrap())
        }
    };
    let grants = begun.and_then(|event| event["payload"]["grantIds"].as_array());
    grants.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Finds the run, node and visit of the idempotency key. The key of a tool call contains them; the key of a `core.http`
/// call is computed and compared.
fn origin<'a>(runs: &'a [Run], effect: &Effect) -> Option<Origin<'a>> {
    let parts: Vec<&str> = effect.key.split(':').collect();
    if let [run, node, visit, call] = parts[..] {
        let run = runs.iter().find(|one| one.id == run)?;
        let (node, call) = (node.to_owned(), Some(call.to_owned()));
        return Some(Origin { run, node, visit: visit.parse().ok()?, call });
    }
    for run in runs {
        for node in NODES {
            let found = (1..=VISITS_MAX).find(|visit| activity_key(&run.id, node, *visit) == effect.key);
            if let Some(visit) = found {
                return Some(Origin { run, node: node.to_owned(), visit: visit.into(), call: None });
            }
        }
    }
    None
}

/// Computes the key of a `core.http` call, as its documentation defines it.
fn activity_key(run: &str, node: &str, visit: u32) -> String {
    let parts = ["openwop:activity:v2", "default", run, node, &visit.to_string(), "core.http"];
    URL_SAFE_NO_PAD.encode(Sha256::digest(parts.join("\0")))
}
