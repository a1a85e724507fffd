//! What packages install, and what is said where something can't be checked.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rig::{places, wait};

use crate::scene::Scene;
use crate::watched::profile_under_load;

/// Makes of the program that is tested the one that packages install, in `dir`.
fn ship(dir: &Path, mb_max: &str) -> (PathBuf, Output) {
    let shipped = dir.join("weir");
    let mut command = Command::new(places::root().join("packaging/ship"));
    command.arg(places::weir()).arg(&shipped).env("SHIP_MB_MAX", mb_max);
    let output = command.output().unwrap();
    (shipped, output)
}

#[test]
fn the_program_that_packages_install_names_our_functions_in_a_profile() {
    let dir = places::directory();
    // The programs of tests are not optimised, and larger than what is shipped may be.
    let (shipped, output) = ship(dir.path(), "150");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Nobody has to have it.
    std::fs::remove_file(dir.path().join("weir.debug")).unwrap();
    let is_for_debuggers = |program: &Path| {
        let sections = Command::new("readelf").args(["-SW"]).arg(program).output().unwrap();
        String::from_utf8_lossy(&sections.stdout).contains(" .debug_info ")
    };
    assert!(is_for_debuggers(&places::weir()) && !is_for_debuggers(&shipped));
    let scene = Scene::with(|setup| setup.program(shipped));
    // On a busy machine few samples may come together at first.
    wait::until("a profile names the front end and the journal", wait::LONG, || {
        let profile = profile_under_load(&scene);
        let mut names = Vec::new();
        flate2::read::GzDecoder::new(&profile.body[..]).read_to_end(&mut names).unwrap();
        let named = |name: &[u8]| names.windows(name.len()).any(|at| at == name);
        named(b"influx::front::") && named(b"journal::")
    });
}

#[test]
fn a_program_that_is_too_large_is_not_packaged() {
    let dir = places::directory();
    let (shipped, output) = ship(dir.path(), "1");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("at most 1 MB are shipped"), "{said}");
    assert!(!shipped.exists());
}

#[test]
fn a_tool_that_is_absent_is_named_with_what_was_not_checked() {
    let dir = places::directory();
    let cargo = dir.path().join("cargo");
    // Every other command succeeds at once.
    let script = "#!/bin/sh\n[ \"$2\" != --version ]\n";
    std::fs::write(&cargo, script).unwrap();
    std::fs::set_permissions(&cargo, PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = Command::new(places::root().join("scripts/check"));
    let output = command.env("CARGO", &cargo).env("CXX", "/nowhere/c++").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "what is absent fails nothing: {said}");
    for line in [
        "check: rustfmt is absent: the format was not checked",
        "check: clippy is absent: lints and warnings were not checked",
        "check: a C++ compiler is absent: the fuzz targets were not checked",
        "check: cargo-deny is absent: licences, sources and advisories were not checked",
    ] {
        assert!(said.lines().any(|said| said == line), "{line} is missing in:\n{said}");
    }
}

#[test]
fn a_check_that_fails_is_named_after_all_the_others() {
    let dir = places::directory();
    let cargo = dir.path().join("cargo");
    std::fs::write(&cargo, "#!/bin/sh\n[ \"$1\" != clippy ] || [ \"$2\" = --version ]\n").unwrap();
    std::fs::set_permissions(&cargo, PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = Command::new(places::root().join("scripts/check"));
    let output = command.env("CARGO", &cargo).output().unwrap();
    assert!(!output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "check: failed: clippy\n");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("check: licences and advisories"), "{said}");
}
