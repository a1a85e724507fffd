//! The operator's reference is made from the code and held equal to it: `make docs` writes what
//! these tests compare.

mod commands;
mod configuration;

use std::path::Path;

/// Compares `docs/<name>` with what it should be; with `UPDATE=1` in the environment writes it.
fn held_equal(name: &str, expected: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, expected).unwrap();
        return;
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    let differing = written.lines().zip(expected.lines()).position(|(is, should)| is != should);
    assert!(
        written == expected,
        "docs/{name} is not what the code says (first difference at line {:?}); run `make docs`",
        differing.map(|line| line + 1)
    );
}
