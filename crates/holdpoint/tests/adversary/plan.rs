//! Random sequences of steps. A plan contains no ids: its numbers are taken modulo the number of choices when a step is
//! executed, so that any part of a plan is a valid plan and a failing plan can be shortened.

use crate::flows::Shape;
use crate::random::SeededRandom;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepKind {
    Start,
    /// An approver reads an open interrupt and answers it.
    Vote,
    /// An approver answers while an attacker forks the run.
    VoteAndFork,
    Fork,
    Pause,
    Resume,
    Cancel,
    /// An attacker tries to answer.
    Answer,
    /// An attacker registers another definition under the same id.
    Redefine,
    /// A client consumes a grant for an effect outside the server.
    Consume,
    /// A message to an agent.
    Message,
    Webhook,
    /// An attacker calls any operation.
    Probe,
    /// Waits until a run no longer executes.
    Settle,
}

const WEIGHTS: [(StepKind, u64); 14] = [
    (StepKind::Start, 3),
    (StepKind::Vote, 26),
    (StepKind::VoteAndFork, 6),
    (StepKind::Fork, 18),
    (StepKind::Pause, 6),
    (StepKind::Resume, 6),
    (StepKind::Cancel, 3),
    (StepKind::Answer, 12),
    (StepKind::Redefine, 1),
    (StepKind::Consume, 8),
    (StepKind::Message, 4),
    (StepKind::Webhook, 2),
    (StepKind::Probe, 12),
    (StepKind::Settle, 8),
];

#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub kind: StepKind,
    pub who: usize,
    pub run: usize,
    pub way: usize,
    pub more: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub shape: Shape,
    /// True if the flow has its own id, so that the attacker can register another revision.
    pub own: bool,
    /// True if the receiver fails the first attempt of each call.
    pub flaky: bool,
    pub steps: Vec<Step>,
}

impl Plan {
    /// Returns the plan of this number.
    pub(crate) fn random(random: &mut SeededRandom, number: usize) -> Self {
        let shape = Shape::ALL[random.index(Shape::ALL.len())];
        let (own, flaky) = (random.below(4) == 0, random.below(60) == 0);
        let count = 4 + random.index(8);
        let mut steps = vec![step(StepKind::Start, random)];
        steps.extend((0..count).map(|_| step(random_kind(random), random)));
        if own {
            // Mostly after the first votes and forks.
            let at = 1 + random.index(steps.len());
            steps.insert(at, step(StepKind::Redefine, random));
        }
        // The number selects the operation, so that every operation is called in turn.
        steps.push(Step { more: number, ..step(StepKind::Probe, random) });
        Self { shape, own, flaky, steps }
    }

    /// Returns the plan without one of its steps.
    pub(crate) fn without(&self, at: usize) -> Self {
        let mut shorter = self.clone();
        shorter.steps.remove(at);
        shorter
    }
}

fn random_kind(random: &mut SeededRandom) -> StepKind {
    let mut left = random.below(WEIGHTS.iter().map(|(_, weight)| weight).sum());
    for (kind, weight) in WEIGHTS {
        if left < weight {
            return kind;
        }
        left -= weight;
    }
    StepKind::Settle
}

fn step(kind: StepKind, random: &mut SeededRandom) -> Step {
    let mut number = || random.index(10_080);
    Step { kind, who: number(), run: number(), way: number(), more: number() }
}
