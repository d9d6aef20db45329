//! The `holdpoint` program: the library as it is, with the node types that are built in.

use std::process::ExitCode;

/// Many small, short-lived values: measured, this allocator needs less time and memory than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    holdpoint::main_with(|options| options)
}
