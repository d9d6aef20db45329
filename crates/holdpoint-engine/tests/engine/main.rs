//! The engine as its callers know it: time moves by `advance`, work by `drain`, and nothing ever sleeps.

mod crashes;
mod effects;
mod house;
mod opening;
mod runs;
mod time;
