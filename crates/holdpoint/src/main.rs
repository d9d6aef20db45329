//! The `holdpoint` program: the library with the built-in node types.

use std::process::ExitCode;

/// The allocator. In measurements with many small, short-lived values it needs less time and memory than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    holdpoint::main_with(|options| options)
}
