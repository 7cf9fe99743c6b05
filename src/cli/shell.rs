//! `gnnc completions` and `gnnc man`: what shells and manuals want to know of the command line.

use super::Cli;
use super::output::{Answer, Output, input};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

/// Arguments of `completions`.
#[derive(Args)]
pub struct Completions {
    /// The shell: bash, elvish, fish, powershell or zsh.
    #[arg(value_name = "SHELL", value_enum, hide_possible_values = true)]
    shell: Shell,
}

/// Arguments of `man`.
#[derive(Args)]
pub struct ManPage {
    /// The command, such as plan or graph import; by default gnnc itself.
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

impl Completions {
    /// Prints a script that completes commands and options.
    pub fn run(&self, out: &Output) -> Answer {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "gnnc", &mut script);
        out.text(&String::from_utf8_lossy(&script))
    }
}

impl ManPage {
    /// Prints a page in the format of manuals.
    pub fn run(&self, out: &Output) -> Answer {
        let mut cli = Cli::command();
        // Gives subcommands their full names and the global options.
        cli.build();
        let mut found = &cli;
        for name in &self.command {
            let visible = |command: &&Command| !command.is_hide_set();
            let mut known = found.get_subcommands().filter(visible);
            found = known
                .find(|command| command.get_name() == name)
                .ok_or_else(|| {
                    let names = found.get_subcommands().filter(visible);
                    let names: Vec<&str> = names.map(Command::get_name).collect();
                    let expected = match names.is_empty() {
                        true => "no further word".to_owned(),
                        false => format!("one of {}", names.join(", ")),
                    };
                    input(format!("found `{name}`, expected {expected}"))
                })?;
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(found.clone()).render(&mut page)?;
        out.text(&String::from_utf8_lossy(&page))
    }
}
