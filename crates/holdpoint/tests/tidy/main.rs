//! Rules about the source tree that the compiler cannot check. Each rule is a test that reads the files as text, and has
//! a second test with a sample that violates it.

mod code;
mod dependencies;
mod handlers;
mod language;
mod modules;
mod names;
mod parameters;
mod ports;
mod requirements;
mod shape;
mod tree;
mod write_path;
