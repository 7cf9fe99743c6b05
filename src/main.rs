//! The command line of gnnc.

mod cli;
mod memory;

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

fn main() -> std::process::ExitCode {
    memory::report_aborts();
    memory::report_panics();
    cli::main()
}
