//! A file that makes the disk fail from another process: the tests of the whole program use it.
//!
//! It holds one order, `<verb> <step>`. A step is `<thread> <what is done> <to which file>`, as in
//! `store-flush rename manifest`; of a file's name its number is left out, and an order's step may
//! be only the beginning. `*` is any thread.
//!
//! | verb | at the step |
//! |---|---|
//! | `list` | nothing; every step is added to the file `<switch>.steps` |
//! | `kill` | the process is killed; of a write half is done |
//! | `fail` | the device could not do it |
//! | `full` | there is no room, where the step needs any |
//! | `hold` | waits for as long as the file says so |

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{EIO, ENOSPC};

/// How often a thread that is held looks whether it still is.
const LOOK: Duration = Duration::from_millis(5);

/// What is to happen at a step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Order {
    Nothing,
    Kill,
    Fail(i32),
    Hold,
}

/// Looks what is to happen at a step, and waits while it is held.
pub(super) fn order(switch: &Path, what: &str, path: &Path) -> Order {
    loop {
        match read(switch, what, path) {
            // Held by a test, from outside: there is nothing here to be told by.
            Order::Hold => std::thread::sleep(LOOK),
            order => return order,
        }
    }
}

fn read(switch: &Path, what: &str, path: &Path) -> Order {
    let Ok(text) = std::fs::read_to_string(switch) else { return Order::Nothing };
    let thread = std::thread::current();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.trim_start_matches(|c: char| c.is_ascii_digit());
    let does = format!("{what} {name}");
    let step = format!("{} {does}", thread.name().unwrap_or("main"));
    let (verb, wanted) = text.trim_end().split_once(' ').unwrap_or((text.trim_end(), ""));
    if verb == "list" {
        // A step that is not listed is one that a test does not see.
        let _ = list(switch, &step);
    }
    let any = wanted.strip_prefix("* ").is_some_and(|of| does.starts_with(of));
    if !any && !step.starts_with(wanted) {
        return Order::Nothing;
    }
    match verb {
        "kill" => Order::Kill,
        "fail" => Order::Fail(EIO),
        "full" if matches!(what, "write" | "create" | "create directory") => Order::Fail(ENOSPC),
        "hold" => Order::Hold,
        _ => Order::Nothing,
    }
}

fn list(switch: &Path, step: &str) -> io::Result<()> {
    let path = PathBuf::from(format!("{}.steps", switch.display()));
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(format!("{}\n", step.trim_end()).as_bytes())
}

/// `kill -9` of this process, by itself.
pub(super) fn kill() -> ! {
    let this = rustix::process::getpid();
    let _ = rustix::process::kill_process(this, rustix::process::Signal::KILL);
    loop {
        std::thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_holds_for_the_steps_that_begin_like_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let switch = dir.path().join("faults");
        let at = |order_text: &str, what: &str, name: &str| {
            std::fs::write(&switch, order_text).unwrap();
            order(&switch, what, Path::new(name))
        };
        let this = std::thread::current().name().unwrap().to_owned();
        assert_eq!(order(&switch, "sync", Path::new("a")), Order::Nothing, "there is no file");
        let kill = format!("kill {this} rename manifest\n");
        assert_eq!(at(&kill, "rename", "manifest"), Order::Kill);
        assert_eq!(at(&kill, "rename", "other"), Order::Nothing);
        assert_eq!(at("kill another", "rename", "manifest"), Order::Nothing);
        assert_eq!(at("kill * rename", "rename", "manifest"), Order::Kill);
        assert_eq!(at("kill * sync", "rename", "manifest"), Order::Nothing);
        assert_eq!(at("full", "write", "0012.parquet"), Order::Fail(ENOSPC));
        assert_eq!(at("full", "remove", "0012.parquet"), Order::Nothing);
        let fail = format!("fail {this} write .parquet");
        assert_eq!(at(&fail, "write", "0012.parquet"), Order::Fail(EIO));
        assert_eq!(at("list", "sync", "0012.runs"), Order::Nothing);
        let listed = std::fs::read_to_string(dir.path().join("faults.steps")).unwrap();
        assert_eq!(listed, format!("{this} sync .runs\n"));
    }
}
