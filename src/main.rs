//! The command line of gnnc.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
