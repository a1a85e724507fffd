//! The append-only files that Weir keeps, for a person.

use std::fmt;

use redis::replica::state::MasterStatus;
use watch::words::{bytes, count, seconds};

use super::table;

/// Shows whose files are kept, and how far they are.
pub fn write(followed: &[MasterStatus], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if followed.is_empty() {
        return Ok(());
    }
    writeln!(f)?;
    let head = [
        "append-only file of",
        "link",
        "durable to",
        "not yet",
        "for",
        "base",
        "increments",
        "kept",
        "sync (p50 / p99)",
    ];
    let rows: Vec<_> = followed.iter().map(row).collect();
    table::write(f, &head, &rows, 2, |row| followed.get(row)?.trouble.clone())?;
    for of in followed {
        if let Some(lasts) = of.lasts {
            let last = |of: Option<f64>| of.map_or("any time".to_owned(), seconds);
            writeln!(
                f,
                "{}: at {}/s its output buffer lasts {} without Weir reading, its backlog {} \
                 without a link",
                of.name,
                bytes(lasts.rate as u64),
                last(lasts.output_seconds),
                last(lasts.backlog_seconds),
            )?;
        }
        if of.unverified_bytes > 0 {
            let left = bytes(of.unverified_bytes);
            writeln!(
                f,
                "{}: unverified: {left} of its files are not read yet since the start",
                of.name
            )?;
        }
        if of.pinned > 0 {
            let pinned = count(of.pinned);
            writeln!(
                f,
                "{}: {pinned} of its generations are pinned, and removed by nobody",
                of.name
            )?;
        }
        for words in of.rewrite.iter().chain(&of.advice) {
            writeln!(f, "{}: {words}", of.name)?;
        }
    }
    Ok(())
}

fn row(of: &MasterStatus) -> Vec<String> {
    let [half, most] = of.sync_seconds.map(|took| format!("{:.1}ms", took * 1e3));
    vec![
        of.name.clone(),
        of.link.clone(),
        count(of.durable),
        bytes(of.not_durable_bytes),
        seconds(of.not_durable_seconds),
        bytes(of.base_bytes),
        bytes(of.increment_bytes),
        count(of.generations),
        format!("{half} / {most}"),
    ]
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use redis::replica::state::{Lasts, MasterStatus};

    struct ShownStatus(Vec<MasterStatus>);

    impl fmt::Display for ShownStatus {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            super::write(&self.0, f)
        }
    }

    #[test]
    fn a_file_is_seen_with_what_is_not_durable_and_what_is_wrong() {
        let followed = MasterStatus {
            name: "cache".into(),
            link: "stopped".into(),
            durable: 1_234_567,
            not_durable_bytes: 2048,
            not_durable_seconds: 2.5,
            trouble: Some("could not sync x: Input/output error".into()),
            advice: vec!["its repl-backlog-size is too small".into()],
            unverified_bytes: 3072,
            pinned: 2,
            lasts: Some(Lasts {
                rate: 1_048_576.0,
                output_seconds: None,
                backlog_seconds: Some(12.0),
            }),
            ..MasterStatus::default()
        };
        let shown = ShownStatus(vec![followed]).to_string();
        let of_master = ["at 1.0 MiB/s", "lasts any time", "backlog 12s", "too small"];
        let of_files = ["cache", "stopped", "1,234,567", "2.0 KiB", "2s", "Input/output error"];
        let of_safety = ["unverified: 3.0 KiB", "2 of its generations are pinned"];
        for words in of_master.iter().chain(&of_files).chain(&of_safety) {
            assert!(shown.contains(words), "{words}: {shown}");
        }
        assert_eq!(ShownStatus(Vec::new()).to_string(), "");
    }
}
