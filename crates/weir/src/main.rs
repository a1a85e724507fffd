//! `weir`: a gateway that combines many small requests into a few large ones.
//!
//! This crate is the program and nothing else: the command line, the configuration, the assembly
//! of the other crates into one process, and the port an operator asks. It never touches a
//! point, a record or a protocol; those belong to `influx`, `journal` and `wire`.
//! The path through it: [`cli`] names the command, [`config`] reads and checks the file,
//! [`serve`] builds the process and takes it apart again.

// Where it is decided (files below this folder, or below `crates` where a crate is named first):
//   a reload is refused: serve/reload.rs, if config/validate.rs or the prepare of a front end
//     says no

// Layers, from the top down: a module takes only from those behind it, which tidy checks.
//   cli
//   export, import, placement_commands, query, serve
//   admin
//   page
//   check, dead_letters, journal_commands, load, password, redis_commands, status, store_commands
//   remote
//   exit
//   config, diagnosis

mod admin;
mod check;
mod cli;
mod config;
mod dead_letters;
mod diagnosis;
mod exit;
mod export;
mod import;
mod journal_commands;
mod load;
mod page;
mod password;
mod placement_commands;
mod query;
mod redis_commands;
mod remote;
mod serve;
mod status;
mod store_commands;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    exit::report(cli::Weir::parse().run(&mut std::io::stdout().lock()))
}
