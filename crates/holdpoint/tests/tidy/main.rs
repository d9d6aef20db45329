//! The walls of the house: rules about the source tree that the compiler cannot hold, each one a test.
//! Reads files as text and runs nothing. Every rule is also tried on a sample that breaks it.

mod code;
mod names;
mod ports;
mod requirements;
mod shape;
mod tree;
mod walls;
