//! The types of a method's parameters, as the JVM writes them.

/// Counts the parameters of a descriptor, as 2 of `I[Ljava/lang/String;`; `None`: it is not one.
pub fn parameters(descriptor: &str) -> Option<usize> {
    let mut rest = descriptor;
    let mut count = 0;
    while !rest.is_empty() {
        let element = rest.trim_start_matches('[');
        rest = match element.split_at_checked(1)? {
            ("B" | "C" | "D" | "F" | "I" | "J" | "S" | "Z", behind) => behind,
            ("L", class) => match class.split_once(';')? {
                ("", _) => return None,
                (_, behind) => behind,
            },
            _ => return None,
        };
        count += 1;
    }
    Some(count)
}
