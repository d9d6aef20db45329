//! Reads the runs of a sequence as the administrator and waits until they no longer execute.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::ledger::Effect;
use crate::plan::Step;
use crate::sequence::Sequence;
use crate::world::Call;

/// Interval between two checks of a condition.
const LOOK: Duration = Duration::from_millis(4);
const STEP_MAX: Duration = Duration::from_secs(2);
const SETTLE_MAX: Duration = Duration::from_secs(30);

impl Sequence<'_> {
    /// Waits until one run no longer executes, at most `STEP_MAX`.
    pub(crate) fn settle(&mut self, step: &Step) {
        let (run, limit) = (self.run(step).id, Instant::now() + STEP_MAX);
        while self.is_moving(&run) && Instant::now() < limit {
            std::thread::sleep(LOOK);
        }
        self.steps.push(format!("wait for {run}"));
    }

    /// Returns the effects that have reached the receiver.
    pub(crate) fn effects(&self) -> Vec<Effect> {
        self.world.ledger.effects(self.names())
    }

    /// Returns the names under which the receiver keeps the effects of this sequence.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.marker.as_str()).chain(self.runs.iter().map(|run| run.id.as_str()))
    }

    /// Returns the log of a run as the administrator reads it.
    pub(crate) fn log(&self, run: &str) -> Vec<Value> {
        let mut call = Call::of("pollEvents").at("runId", run);
        call.query = "?timeout=1".to_owned();
        let page = self.world.call(&self.world.admin, &call);
        page.body["events"].as_array().unwrap_or_else(|| panic!("{page:?}")).clone()
    }

    /// Returns all interrupts of a run, as the administrator reads them.
    pub(crate) fn interrupts(&self, run: &str) -> Vec<Value> {
        let page = self.world.call(&self.world.admin, &Call::of("listInterrupts").at("runId", run));
        page.body["interrupts"].as_array().unwrap_or_else(|| panic!("{page:?}")).clone()
    }

    pub(crate) fn snapshot(&self, run: &str) -> Value {
        self.world.call(&self.world.admin, &Call::of("getRun").at("runId", run)).body
    }

    fn is_moving(&self, run: &str) -> bool {
        ["running", "pending"].contains(&self.snapshot(run)["status"].as_str().unwrap_or("none"))
    }

    /// Resumes paused runs, adds child runs, and waits until no run executes.
    pub(crate) fn settle_all(&mut self) {
        let limit = Instant::now() + SETTLE_MAX;
        loop {
            let mut moving = None;
            let mut at = 0;
            while at < self.runs.len() {
                let run = self.runs[at].clone();
                let shown = self.snapshot(&run.id);
                let children = shown["childRuns"].as_array().cloned().unwrap_or_default();
                for child in &children {
                    let child = child["runId"].as_str().unwrap();
                    // A fork also shows the children of its source, and a replay shows them under its own ids.
                    let is_own = child.rsplit_once('.').is_some_and(|(parent, _)| parent == run.id);
                    if is_own && self.snapshot(child)["runId"] == *child {
                        self.add_run(child, run.requesters.clone()).parent = Some(run.id.clone());
                    }
                }
                match shown["status"].as_str().unwrap_or("none") {
                    "paused" => {
                        let call = Call::of("resumeRun").at("runId", &*run.id);
                        self.send(&self.world.admin, &call);
                        moving = Some(run.id);
                    }
                    "running" | "pending" => {
                        moving = Some(run.id);
                    }
                    _ => {}
                }
                at += 1;
            }
            let Some(run) = moving else { return };
            if Instant::now() > limit {
                self.violations.push(format!("run {run} does not stop executing"));
                return;
            }
            std::thread::sleep(LOOK);
        }
    }
}
