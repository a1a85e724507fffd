//! `userlist.txt`: `"name" "password"` a line, read as PgBouncer reads it (`load_auth_file`).

/// Names and passwords in their order, up to the first line that is none of these, and whether
/// there was such a line.
pub fn users(text: &str) -> (Vec<(String, String)>, bool) {
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(';') {
            continue;
        }
        // The password begins at the next quote, whatever lies between.
        let Some((user, rest)) = line.strip_prefix('"').and_then(quoted) else {
            return (found, true);
        };
        let rest = rest.split_once('"').map(|(_, rest)| rest);
        let Some((password, _)) = rest.and_then(quoted) else {
            return (found, true);
        };
        found.push((user, password));
    }
    (found, false)
}

fn quoted(mut rest: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    loop {
        let (before, after) = rest.split_once('"')?;
        text.push_str(before);
        match after.strip_prefix('"') {
            Some(after) => {
                text.push('"');
                rest = after;
            }
            None => return Some((text, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::users;

    #[test]
    fn lines_are_read_as_by_pgbouncer() {
        let text = "; a comment\n\"ann\" \"geheim\"\n\n\"a\"\"b\"\t\"c\"\"d\" more\n\"e\" \"\"\n";
        let is = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(user, password)| ((*user).into(), (*password).into())).collect()
        };
        let all = is(&[("ann", "geheim"), ("a\"b", "c\"d"), ("e", "")]);
        assert_eq!(users(text), (all, false));
        assert_eq!(users("\"a\" \"b\"\nbroken\n\"c\" \"d\""), (is(&[("a", "b")]), true));
        assert_eq!(users("\"a\""), (Vec::new(), true));
        assert_eq!(users(""), (Vec::new(), false));
    }
}
