//! `core.http` in a run.
