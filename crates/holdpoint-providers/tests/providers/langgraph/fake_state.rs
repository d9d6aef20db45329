//! The state of the fake server and its responses, without a network.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

use crate::langgraph::fake::Fault;

/// The next step of a graph.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Opens these interrupts together.
    Ask(Vec<Value>),
    /// Opens this interrupt with a schema for answers.
    AskTyped(Value),
    Finish(Value),
    Fail(&'static str, &'static str),
    /// Ends the run with this status.
    End(&'static str),
    /// Runs until it is released, and then executes the step.
    Hang(Box<Step>),
}

pub(crate) fn hang(then: Step) -> Step {
    Step::Hang(Box::new(then))
}

pub(crate) fn ask(round: u32) -> Step {
    Step::Ask(vec![json!({ "kind": "review", "data": { "round": round } })])
}

#[derive(Default)]
pub(crate) struct FakeState {
    pub steps: VecDeque<Step>,
    pub faults: Vec<(String, Fault)>,
    /// All requests, with `X` for ids: `POST /threads/X/runs`.
    pub requests: Vec<String>,
    /// The header that requests must have, if any.
    pub token: Option<String>,
    pub version: Option<&'static str>,
    /// The inputs of starts and the answers that were accepted.
    pub inputs: Vec<Value>,
    pub answers: Vec<Value>,
    /// The server streams runs.
    pub streams: bool,
    /// The events of the stream, and the number of cuts. A stream begins with the events after the last cut.
    pub frames: Vec<String>,
    pub cuts: usize,
    pub first_frame: usize,
    threads: BTreeMap<String, Thread>,
    /// Stored separately: a checkpoint can exist without its thread.
    checkpoints: BTreeMap<String, Checkpoint>,
    /// All ids of threads, runs and interrupts.
    all_ids: Vec<String>,
}

#[derive(Default)]
struct Thread {
    runs: Vec<Run>,
    error: Option<Value>,
}

struct Run {
    id: String,
    status: &'static str,
    metadata: Value,
    hanging: Option<Step>,
}

#[derive(Clone, Default)]
struct Checkpoint {
    id: String,
    values: Value,
    next: Vec<&'static str>,
    questions: Vec<Value>,
}

impl FakeState {
    /// Deletes all threads, like a killed server that stores its checkpoints separately.
    pub(crate) fn lose_threads(&mut self) {
        self.threads.clear();
    }

    pub(crate) fn lose_everything(&mut self) {
        self.threads.clear();
        self.checkpoints.clear();
    }

    /// Returns the ids that callers must not see.
    pub(crate) fn all_ids(&self) -> &[String] {
        &self.all_ids
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Returns the ids of the open interrupts.
    pub(crate) fn open(&self) -> Vec<String> {
        self.checkpoints.values().flat_map(|checkpoint| ids(&checkpoint.questions)).collect()
    }

    pub(crate) fn is_running(&self, run: &str) -> bool {
        let runs = self.threads.values().flat_map(|thread| &thread.runs);
        runs.into_iter().any(|one| one.id == run && one.status == "running")
    }

    /// Adds a run of another client to every thread.
    pub(crate) fn add_other_run(&mut self, status: &'static str) {
        for thread in self.threads.values_mut() {
            let run = Run { id: "other".into(), status, metadata: json!({}), hanging: None };
            thread.runs.push(run);
        }
    }

    /// Cancels all running runs, like an operator of the server.
    pub(crate) fn stop_all(&mut self) {
        for run in self.threads.values_mut().flat_map(|thread| &mut thread.runs) {
            if run.status == "running" {
                (run.status, run.hanging) = ("interrupted", None);
            }
        }
    }

    pub(crate) fn release(&mut self) {
        let mut found = None;
        for (thread, known) in &mut self.threads {
            for run in &mut known.runs {
                if let Some(step) = run.hanging.take() {
                    found = Some((thread.clone(), run.id.clone(), step));
                }
            }
        }
        let (thread, run, step) = found.expect("a run hangs");
        self.execute_step(&thread, &run, step);
    }

    /// Replaces the ids of a request line by `X`.
    pub(crate) fn without_ids(&self, line: &str) -> String {
        let parts =
            line.split('/').map(|part| if self.all_ids.iter().any(|name| name == part) { "X" } else { part });
        parts.collect::<Vec<_>>().join("/")
    }

    pub(crate) fn answer(&mut self, line: &str, body: &Value) -> (u16, Value) {
        let mut parts = line.split('/');
        let (method, resource) = (parts.next().unwrap().trim(), parts.next().unwrap());
        let rest: Vec<&str> = parts.collect();
        match (method, resource, rest.as_slice()) {
            ("GET", "info", []) => (200, json!({ "version": self.version })),
            ("POST", "threads", []) => self.create_thread(body),
            ("DELETE", "threads", [thread]) => match self.threads.remove(*thread) {
                Some(_) => (204, json!(null)),
                None => (404, json!({ "detail": "not found" })),
            },
            (_, "threads", [thread, rest @ ..]) if self.threads.contains_key(*thread) => {
                self.in_thread(method, thread, rest, body)
            }
            _ => (404, json!({ "detail": format!("{line} not found") })),
        }
    }

    fn create_thread(&mut self, body: &Value) -> (u16, Value) {
        let thread = body["thread_id"].as_str().unwrap().to_owned();
        uuid::Uuid::try_parse(&thread).unwrap();
        if self.threads.contains_key(&thread) {
            return (409, json!({ "detail": format!("Thread with ID {thread} already exists") }));
        }
        self.all_ids.push(thread.clone());
        self.threads.insert(thread.clone(), Thread::default());
        (200, json!({ "thread_id": thread }))
    }

    fn in_thread(&mut self, method: &str, thread: &str, rest: &[&str], body: &Value) -> (u16, Value) {
        let known = &self.threads[thread];
        match (method, rest) {
            ("GET", []) => (200, json!({ "error": known.error })),
            ("GET", ["state"]) => (200, self.state(thread)),
            ("GET", ["runs"]) => (200, known.runs.iter().rev().map(run_json).collect()),
            ("POST", ["runs"]) => self.begin(thread, body),
            ("GET", ["runs", _, "stream"]) => (404, json!({ "detail": "Not Found" })),
            ("GET", ["runs", run]) => match known.runs.iter().find(|one| one.id == *run) {
                Some(run) => (200, run_json(run)),
                None => (404, json!({ "detail": "no such run" })),
            },
            ("POST", ["runs", _, "cancel"]) => {
                let busy = known.runs.iter().any(|run| run.status == "running");
                self.stop_all();
                if busy { (200, json!({})) } else { (404, json!({ "detail": "nothing to cancel" })) }
            }
            other => panic!("the published server has no {other:?}"),
        }
    }

    fn state(&self, thread: &str) -> Value {
        let Some(checkpoint) = self.checkpoints.get(thread) else {
            return json!({ "values": {}, "next": [], "tasks": [], "checkpoint": null, "interrupts": [] });
        };
        let Checkpoint { id, values, next, questions } = checkpoint;
        let tasks: Vec<Value> = questions.iter().map(|one| json!({ "interrupts": [one] })).collect();
        json!({ "values": values, "next": next, "tasks": tasks, "checkpoint": { "checkpoint_id": id }, "interrupts": questions })
    }

    fn begin(&mut self, thread: &str, body: &Value) -> (u16, Value) {
        assert_eq!((&body["multitask_strategy"], &body["durability"]), (&json!("reject"), &json!("sync")));
        if self.threads[thread].runs.iter().any(|run| run.status == "running") {
            return (409, json!({ "detail": "Thread is already running a task." }));
        }
        let id = uuid::Uuid::now_v7().to_string();
        self.all_ids.push(id.clone());
        let run =
            Run { id: id.clone(), status: "running", metadata: body["metadata"].clone(), hanging: None };
        let response = run_json(&run);
        self.threads.get_mut(thread).unwrap().runs.push(run);
        let open =
            self.checkpoints.get(thread).map(|checkpoint| ids(&checkpoint.questions)).unwrap_or_default();
        let given = body["command"]["resume"].as_object().cloned().unwrap_or_default();
        let answered: Vec<String> = open.iter().filter(|id| given.contains_key(*id)).cloned().collect();
        if body.get("command").is_some() {
            self.answers.extend(answered.iter().map(|id| given[id].clone()));
            if answered.is_empty() || answered.len() < open.len() {
                let questions = &mut self.checkpoints.get_mut(thread).unwrap().questions;
                questions.retain(|one| !answered.iter().any(|id| one["id"] == json!(id)));
                self.end(thread, &id, "success", None);
                return (200, response);
            }
        } else {
            self.inputs.push(body["input"].clone());
        }
        match self.steps.pop_front().expect("the graph has a next step") {
            Step::Hang(then) => self.run(thread, &id).hanging = Some(*then),
            step => self.execute_step(thread, &id, step),
        }
        (200, response)
    }

    fn execute_step(&mut self, thread: &str, run: &str, step: Step) {
        let question = |value: Value, schema: Option<Value>| json!({ "id": uuid::Uuid::now_v7().simple().to_string(), "value": value, "response_schema": schema });
        let (questions, values, next) = match step {
            Step::Ask(values) => {
                (values.into_iter().map(|value| question(value, None)).collect(), json!({}), vec!["node"])
            }
            Step::AskTyped(value) => {
                (vec![question(value, Some(json!({ "type": "object" })))], json!({}), vec!["node"])
            }
            Step::Finish(values) => (Vec::new(), values, Vec::new()),
            Step::Fail(kind, message) => {
                // A run that fails keeps the checkpoint before the failed node.
                let first = || Checkpoint { id: new_id(), next: vec!["node"], ..Checkpoint::default() };
                self.checkpoints.entry(thread.to_owned()).or_insert_with(first);
                return self.end(thread, run, "error", Some(json!({ "error": kind, "message": message })));
            }
            Step::End(status) => return self.end(thread, run, status, None),
            Step::Hang(_) => unreachable!("a hanging step is not nested"),
        };
        self.all_ids.extend(ids(&questions));
        self.checkpoints.insert(thread.to_owned(), Checkpoint { id: new_id(), values, next, questions });
        self.end(thread, run, "success", None);
    }

    fn end(&mut self, thread: &str, run: &str, status: &'static str, error: Option<Value>) {
        self.run(thread, run).status = status;
        self.threads.get_mut(thread).unwrap().error = error;
    }

    fn run(&mut self, thread: &str, run: &str) -> &mut Run {
        self.threads.get_mut(thread).unwrap().runs.iter_mut().find(|one| one.id == run).unwrap()
    }
}

fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

fn run_json(run: &Run) -> Value {
    json!({ "run_id": run.id, "status": run.status, "metadata": run.metadata })
}

fn ids(questions: &[Value]) -> Vec<String> {
    questions.iter().map(|question| question["id"].as_str().unwrap().to_owned()).collect()
}
