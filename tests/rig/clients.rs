//! Clients that nobody here wrote, each by the script of its folder in `tests/clients`.

use std::process::{Command, Output};

use crate::places;

/// The script of a folder. What it installs it keeps beside the programs of the build, for the
/// next run.
pub fn script(folder: &str) -> Command {
    let mut command = Command::new("bash");
    command.arg(places::root().join("tests/clients").join(folder).join("run.sh"));
    command.env("WEIR_CLIENTS", places::beside_the_build().join("clients"));
    command
}

/// Runs a script, which must end well, and prints what it says.
///
/// # Panics
/// When it does not.
#[track_caller]
pub fn run(script: &mut Command) {
    let output = script.output().expect("bash can be started");
    assert!(output.status.success(), "{script:?}: {}\n{}", output.status, said(&output));
    println!("{}", said(&output));
}

/// Everything that a script has said.
pub fn said(output: &Output) -> String {
    let of = |bytes| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}", of(&output.stdout), of(&output.stderr))
}
