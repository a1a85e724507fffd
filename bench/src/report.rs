//! What is printed.

/// The machine, since only ratios carry over to another.
pub fn machine() {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find_map(|l| l.strip_prefix("model name\t: ")).unwrap_or("?");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    println!(
        "{cores} cores of {model}, Linux {}, load {}",
        kernel.trim(),
        read("/proc/loadavg").trim()
    );
}

/// The beginning of a row's section.
pub fn heading(name: &str) {
    println!("\n### {name}\n");
}

/// A table's head.
pub fn head(columns: &[&str]) {
    println!("| {} |", columns.join(" | "));
    println!("|{}", "---|".repeat(columns.len()));
}

/// A table's line.
pub fn line(cells: &[String]) {
    println!("| {} |", cells.join(" | "));
}

/// The median, for an even count the lower of the middle two; NaN of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

/// A ratio beside what it is to reach.
pub fn ratio(what: &str, value: f64, to_reach: &str) {
    println!("\n**{what}: {value:.2}** (to reach: {to_reach})");
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn medians() {
        assert!(median(&[]).is_nan());
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.0).abs() < f64::EPSILON);
    }
}
