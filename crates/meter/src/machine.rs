//! What a run was made on, as far as the kernel tells.

use std::fs;

use serde_json::{Value, json};

/// What the machine is called.
pub fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Name, kernel, CPUs and memory.
pub fn describe() -> Value {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let (cpus, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
    let usable = std::thread::available_parallelism().map_or(1, usize::from);
    json!({
        "host": host(),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "architecture": std::env::consts::ARCH,
        "cpu": value(&cpus, "model name"),
        "cpus": cpus.lines().filter(|line| line.starts_with("processor")).count(),
        "cpus_usable": usable,
        "memory": value(&memory, "MemTotal"),
    })
}

/// What stands behind a name and its colon.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_the_kernel_says_is_found() {
        let text = "processor\t: 0\nmodel name\t: A CPU: fast\n";
        assert_eq!(super::value(text, "model name"), Some("A CPU: fast"));
        assert_eq!(super::value(text, "MemTotal"), None);
        assert!(super::describe()["cpus_usable"].as_u64() > Some(0));
    }
}
