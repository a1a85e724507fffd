//! `docs/commands.md`: the help of every command.

use std::fmt::Write;

use clap::{Command, CommandFactory};

use crate::cli::Weir;

const HEAD: &str = "\
# Commands

<!-- Made from the command line's own help by `make docs`. -->

Those that most people need:

    weir serve --config weir.toml     # run it
    weir check --config weir.toml     # what it would do, and what is wrong with the file
    weir status                       # how a running one is
    weir query 'SHOW DATABASES'       # ask it, or any InfluxDB 1.x

Every command says what it does with `--help`. Answers go to standard output, logs and errors to
standard error.
";

#[test]
fn every_command_is_in_the_reference() {
    let mut text = HEAD.to_owned();
    describe(&mut Weir::command().term_width(96), &mut text);
    super::held_equal("commands.md", &text);
}

fn describe(command: &mut Command, text: &mut String) {
    command.build();
    let name = command.get_bin_name().unwrap_or("weir").to_owned();
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    writeln!(text, "\n## `{name}`\n\n```text\n{}\n```", help.join("\n").trim_end()).unwrap();
    for below in command.get_subcommands_mut().filter(|below| below.get_name() != "help") {
        describe(&mut below.clone().term_width(96), text);
    }
}
