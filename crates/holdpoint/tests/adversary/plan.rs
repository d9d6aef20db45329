//! Random sequences. A plan names no ids: its numbers are taken modulo what there is when a step is carried out, so that
//! any part of a plan is a plan, and a failing one can be made shorter.

use crate::dice::Dice;
use crate::flows::Shape;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Start,
    /// An approver looks at an open interrupt and answers it.
    Vote,
    /// The same while an attacker forks the run.
    VoteAndFork,
    Fork,
    Pause,
    Resume,
    Cancel,
    /// An attacker tries to answer.
    Answer,
    /// An attacker registers another definition under the same id.
    Redefine,
    /// A client uses a grant for an effect outside of the server.
    Consume,
    /// A message to an agent.
    Tell,
    Webhook,
    /// An attacker calls any operation.
    Probe,
    /// Waits until a run has come to rest.
    Settle,
}

const WEIGHTS: [(What, u64); 14] = [
    (What::Start, 3),
    (What::Vote, 26),
    (What::VoteAndFork, 6),
    (What::Fork, 18),
    (What::Pause, 6),
    (What::Resume, 6),
    (What::Cancel, 3),
    (What::Answer, 12),
    (What::Redefine, 1),
    (What::Consume, 8),
    (What::Tell, 4),
    (What::Webhook, 2),
    (What::Probe, 12),
    (What::Settle, 8),
];

#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub what: What,
    pub who: usize,
    pub run: usize,
    pub way: usize,
    pub more: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub shape: Shape,
    /// Whether the flow has an id of its own, so that the attacker can register another revision.
    pub own: bool,
    /// Whether the receiver fails the first attempt of each call.
    pub flaky: bool,
    pub steps: Vec<Step>,
}

impl Plan {
    /// Returns the plan of this number.
    pub(crate) fn random(dice: &mut Dice, number: usize) -> Self {
        let shape = Shape::ALL[dice.index(Shape::ALL.len())];
        let (own, flaky) = (dice.below(4) == 0, dice.below(60) == 0);
        let count = 4 + dice.index(8);
        let mut steps = vec![step(What::Start, dice)];
        steps.extend((0..count).map(|_| step(what(dice), dice)));
        if own {
            // Mostly after the first votes and forks.
            let at = 1 + dice.index(steps.len());
            steps.insert(at, step(What::Redefine, dice));
        }
        // In its turn, so that every operation is called however the dice fall.
        steps.push(Step { more: number, ..step(What::Probe, dice) });
        Self { shape, own, flaky, steps }
    }

    /// Returns the plan without one of its steps.
    pub(crate) fn without(&self, at: usize) -> Self {
        let mut shorter = self.clone();
        shorter.steps.remove(at);
        shorter
    }
}

fn what(dice: &mut Dice) -> What {
    let mut left = dice.below(WEIGHTS.iter().map(|(_, weight)| weight).sum());
    for (what, weight) in WEIGHTS {
        if left < weight {
            return what;
        }
        left -= weight;
    }
    What::Settle
}

fn step(what: What, dice: &mut Dice) -> Step {
    let mut number = || dice.index(10_080);
    Step { what, who: number(), run: number(), way: number(), more: number() }
}
